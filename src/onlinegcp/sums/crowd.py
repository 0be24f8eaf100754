"""Tasks that need nothing of each other, on the workers of a Dask cluster."""

# distributed has types here and there, not for what is called here.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from onlinegcp.sums.connecting import ATTEMPTS, await_worker, connected, losses, some_workers

_NOTHING = object()


class Crowd:
    """The workers of a cluster, each doing one of many tasks that need nothing of each other.

    Parameters
    ----------
    client
        As for `Cluster`.
    """

    def __init__(self, client: Any) -> None:
        self.client = connected(client)

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """What a function gives, in the order of the items; None where it fails.

        A few more tasks than there are workers are under way, so that memory is bounded. A task
        whose worker is lost is given to another.
        """
        rest, waiting = iter(items), deque[tuple[Any, Any]]()
        ahead = 2 * len(some_workers(self.client))
        try:
            while True:
                while len(waiting) < ahead and (item := next(rest, _NOTHING)) is not _NOTHING:
                    waiting.append((item, self._submit(function, item)))
                if not waiting:
                    return
                yield self._result(function, *waiting.popleft())
        finally:
            for _, future in waiting:
                future.release()

    def _submit(self, function: Callable[[Any], Any], item: Any) -> Any:
        return self.client.submit(function, item, pure=False)

    def _result(self, function: Callable[[Any], Any], item: Any, future: Any) -> Any:
        for _ in range(ATTEMPTS):
            try:
                return future.result()
            except losses():
                await_worker(self.client)
                future = self._submit(function, item)
            except Exception:  # whoever asked does it without help, and sees what is wrong
                return None
        return None
