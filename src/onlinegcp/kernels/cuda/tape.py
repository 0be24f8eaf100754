"""What is asked of the driver itself: launches recorded once and played as one graph, and copies.

Handing a kernel with ten arrays to the driver costs Numba about 100 us of host time, playing a
graph about 5 us and half a microsecond per kernel in it. So a phase of a step is recorded when it
is played for the second time (the first compiles its kernels), or at once where they are known to
be compiled, with the buffers it was given: whoever gives other buffers makes another tape.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,import-not-found"

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from onlinegcp.errors import BackendError
from onlinegcp.kernels.cuda.lanes import SIMULATED


class Tape:
    """Launches on one stream.

    Parameters
    ----------
    stream
        The stream all of them go to.
    launches
        Makes the launches, and nothing else: no allocation, no waiting.
    compiled
        Whether all of their kernels have been launched before, with other buffers.
    early
        Whether each of them may take its place before the one before has ended: all call
        `overlap.after_others` first.
    """

    def __init__(
        self,
        stream: Any,
        launches: Callable[[], None],
        *,
        compiled: bool = False,
        early: bool = False,
    ) -> None:
        self._stream, self._launches = stream, launches
        self._played, self._graph = int(compiled), None
        self._early = early

    def play(self) -> None:
        """Put the launches on the stream; returns at once."""
        self._played += 1
        if SIMULATED or self._played == 1:
            self._launches()
            return
        if self._graph is None:
            self._graph = _record(self._stream, self._launches, early=self._early)
            weakref.finalize(self, _forget, self._graph)
        from cuda.bindings import driver

        _ask(driver.cuGraphLaunch(self._graph, self._stream.handle))


def _record(stream: Any, launches: Callable[[], None], *, early: bool) -> Any:
    from cuda.bindings import driver

    # Relaxed: another thread, or the garbage collector, may free memory meanwhile.
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    _ask(driver.cuStreamBeginCapture(stream.handle, mode))
    try:
        launches()
    finally:
        captured = _ask(driver.cuStreamEndCapture(stream.handle))
    if early:
        _let_begin_early(captured)
    graph = _ask(driver.cuGraphInstantiate(captured, 0))
    _ask(driver.cuGraphDestroy(captured))
    return graph


def _let_begin_early(graph: Any) -> None:
    """Between kernels of which one waits for one other: it may take its place meanwhile."""
    from cuda.bindings import driver

    edges = driver.cuGraphGetEdges(graph)
    _ask(edges)
    edges = driver.cuGraphGetEdges(graph, edges[-1])
    _ask(edges)
    befores, afters, facts = edges[1:4]
    kernel = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL
    early = driver.CUgraphEdgeData()
    early.from_port = driver.CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC
    early.type = int(driver.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
    waiting = Counter(int(after) for after in afters)
    for before, after, fact in zip(befores, afters, facts, strict=False):
        both = {_ask(driver.cuGraphNodeGetType(node)) for node in (before, after)}
        if both == {kernel} and waiting[int(after)] == 1:
            _ask(driver.cuGraphRemoveDependencies(graph, [before], [after], [fact], 1))
            _ask(driver.cuGraphAddDependencies(graph, [before], [after], [early], 1))


def copy_to_card(target: Any, source: Any, size: int, stream: Any) -> None:
    """Copy the first numbers of an array that the card can reach to a buffer; returns at once.

    The driver itself: cutting arrays and checking them takes Numba half a millisecond.
    """
    from cuda.bindings import driver

    at, count = target.device_ctypes_pointer.value, size * target.dtype.itemsize
    if count:
        _ask(driver.cuMemcpyHtoDAsync(at, source.ctypes.data, count, stream.handle))


def copy_on_card(target: Any, source: Any, size: int, stream: Any) -> None:
    """Copy the first numbers of a buffer to another; returns at once."""
    from cuda.bindings import driver

    to, at = target.device_ctypes_pointer.value, source.device_ctypes_pointer.value
    if size:
        _ask(driver.cuMemcpyDtoDAsync(to, at, size * target.dtype.itemsize, stream.handle))


def _forget(graph: Any) -> None:
    from cuda.bindings import driver

    driver.cuGraphExecDestroy(graph)


def _ask(answer: Any) -> Any:
    """What a call of the driver gave; its refusal becomes an error."""
    if int(answer[0]) != 0:
        raise BackendError(
            f"The CUDA driver must record and play graphs, but it answered {answer[0]!r}. Update "
            "the driver (580 or newer is known to work), or use device='cpu'."
        )
    return answer[1] if len(answer) > 1 else None
