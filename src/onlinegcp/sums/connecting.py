"""A cluster to work on: the client for an address, its workers, and what says that one is gone."""

# distributed has types here and there, not for what is called here.
# mypy: disable-error-code="no-untyped-call,attr-defined"

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from onlinegcp.errors import BackendError

ATTEMPTS = 5  # how often work is given again after a worker was lost
PATIENCE = "20s"  # for the scheduler to answer
# Of processes of our own: waking to look at themselves takes a tenth of a core from two workers.
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.worker.memory.monitor-interval": "1s",
}
# A worker that was killed is started again. On a busy machine that takes longer than the usual
# 15 s, after which a cluster of one machine gives up its place for good.
PATIENT = {"distributed.deploy.lost-worker-timeout": "120s"}
_CLIENTS: dict[str, Any] = {}  # by address


def connected(client: Any) -> Any:
    """The client itself, or the one for an address: one for each, whoever asks."""
    if not isinstance(client, str):
        return client
    known = _CLIENTS.get(client)
    if known is None or known.status in ("closing", "closed"):
        known = _CLIENTS[client] = _connect(client)
    return known


def addresses(client: Any) -> list[str]:
    return sorted(_workers(client))


def threads_of(client: Any) -> int:
    """Threads that all workers have together."""
    return sum(int(worker["nthreads"]) for worker in _workers(client).values())


def _workers(client: Any) -> dict[str, Any]:
    found = client.scheduler_info(n_workers=-1)
    if client.status != "running":
        raise OSError("no scheduler is connected")
    return dict(found["workers"])


def some_workers(client: Any) -> list[str]:
    """Addresses of the workers, of which there must be one."""
    if client.status != "running":
        await_worker(client)  # it may come back
    with answering(client):
        found = addresses(client)
    if not found:
        raise BackendError(
            "The cluster needs at least one worker, but its scheduler has none. Start some "
            "with `dask worker SCHEDULER-ADDRESS`."
        )
    return found


@contextmanager
def answering(client: Any) -> Iterator[None]:
    """Say of a cluster that is gone what that means for whoever learns."""
    try:
        yield
    except BackendError:
        raise
    except losses(OSError, RuntimeError) as error:
        raise BackendError(
            f"The cluster needs a scheduler that answers and a worker, but in {client} there are "
            f"none any more ({error}). What was stored is kept, and who does the work changes no "
            "result: start them again, or go on without cluster."
        ) from error


def await_worker(client: Any) -> None:
    """Wait until there is a worker again, which a busy machine may take its time to start."""
    with answering(client):
        client.wait_for_workers(1, timeout=60)


def losses(*more: type[BaseException]) -> tuple[type[BaseException], ...]:
    """What is raised when a worker is gone, and more."""
    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    return CancelledError, KilledWorker, CommClosedError, TimeoutError, *more


def _connect(address: str) -> Any:
    try:
        import dask.config
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise BackendError(
            "A cluster needs the package distributed, which is not installed. Install it with "
            "`pip install 'onlinegcp[cluster]'`."
        ) from error
    kind, _, rest = address.partition(":")
    if kind == "local":
        if not rest.isdigit() or int(rest) < 1:
            raise BackendError(
                f"cluster must be local:N with N processes, or the address of a scheduler, but is "
                f"{address!r}. Write local:4, or tcp://host:8786."
            )
        dask.config.set(PATIENT)  # which is read when a worker is lost
        with dask.config.set(QUIET):
            workers = LocalCluster(
                n_workers=int(rest), threads_per_worker=1, dashboard_address=None, silence_logs=50
            )
        return Client(workers)
    try:
        return Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise BackendError(
            f"The cluster needs a scheduler that answers, but none did at {address!r} ({error}). "
            "Start one with `dask scheduler`, check the address and the firewall, or leave "
            "cluster out to use this machine."
        ) from error


def advice(name: str) -> str:
    if name.startswith("processor"):
        return (
            "Set NUMBA_CPU_NAME=x86-64-v3 (or what all of them have) and NUMBA_CPU_FEATURES= on "
            "every machine, this one included."
        )
    return "Install the same versions everywhere, for example one container image."
