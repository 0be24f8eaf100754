"""A cluster to work on: the client for an address, its workers, and what says that one is gone."""

# distributed has types here and there, not for what is called here.
# mypy: disable-error-code="no-untyped-call,attr-defined"

from __future__ import annotations

from concurrent.futures import CancelledError
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
    return sorted(client.scheduler_info(n_workers=-1)["workers"])


def threads_of(client: Any) -> int:
    """Threads that all workers have together."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return sum(int(worker["nthreads"]) for worker in workers.values())


def some_workers(client: Any) -> list[str]:
    """Addresses of the workers, of which there must be one."""
    found = addresses(client)
    if not found:
        raise BackendError(
            "The cluster needs at least one worker, but its scheduler has none. Start some "
            "with `dask worker SCHEDULER-ADDRESS`."
        )
    return found


def losses() -> tuple[type[BaseException], ...]:
    """What is raised when a worker is gone."""
    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    return CancelledError, KilledWorker, CommClosedError, TimeoutError


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
