"""Whether there is a card that can be used, and one handle to it per process."""

# mypy: disable-error-code="no-untyped-call,attr-defined"

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import BackendError

Array = NDArray[Any]

# Cards from 2016 on add 64-bit numbers atomically.
OLDEST = (6, 0)
CELLS_SHARE = 4  # one of how many parts of the card's memory a slice may take


def why_not() -> str:
    """Why this process cannot use a card, with what to do; empty if it can."""
    from numba import config

    if config.ENABLE_CUDASIM:
        return ""
    if find_spec("numba_cuda") is None:
        return (
            "numba-cuda is not installed. Run: pip install 'onlinegcp[cuda]', or use device='cpu'."
        )
    try:
        from numba import cuda

        if not cuda.is_available():
            from numba.cuda.cudadrv.error import CudaSupportError

            try:
                cuda.detect()
            except CudaSupportError as error:
                return f"{error}. {_FIX}"
            return f"no NVIDIA card or driver was found. {_FIX}"
        device = cuda.get_current_device()
        name, age = device.name, device.compute_capability
    except Exception as error:  # whatever a broken installation of drivers raises
        return f"{type(error).__name__}: {error}. {_FIX}"
    if tuple(age) < OLDEST:
        return (
            f"the card {name} has compute capability {age[0]}.{age[1]}, and 6.0 is needed. Use "
            "device='cpu'."
        )
    return ""


_FIX = (
    "See that nvidia-smi shows a card and a driver of CUDA 12 or newer, and that the container was "
    "given it, or use device='cpu'."
)


def refuse(reason: str) -> BackendError:
    """The error for a card that was asked for and cannot be used."""
    return BackendError(f"device='cuda' needs an NVIDIA card, but {reason}")


@cache
def card() -> Card:
    """The card of this process; raises BackendError without one."""
    reason = why_not()
    if reason:
        raise refuse(reason)
    return Card()


class Card:
    """One stream, named buffers with room to grow, and pairs of short vectors on either side.

    Attributes
    ----------
    stream
        The stream that everything goes to.
    turn
        Held by whoever uses the buffers.
    unsettled
        Whether a phase that adds to sums has begun, and not ended: if another begins, an error or
        Ctrl-C came between, and the sums must be made zero first.
    meanwhile
        What the host does next time it would only wait for the card, once; nothing if it fails.
    """

    def __init__(self) -> None:
        from numba import config, cuda

        from onlinegcp.kernels.cuda.lanes import SIMULATED

        self.simulated = SIMULATED
        config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
        self._cuda = cuda
        self.stream = cuda.stream()
        self.turn = threading.RLock()
        self.unsettled = False
        self.meanwhile: Callable[[], None] | None = None
        self._buffers: dict[str, Any] = {}
        self._far: set[str] = set()
        self._version = 0

    @property
    def version(self) -> int:
        """Changes whenever a buffer has moved: what was recorded with it is void then."""
        return self._version

    def room(self, name: str, size: int, dtype: Any = np.float64, *, far: bool = False) -> Any:
        """A buffer of at least this size, zeros when new; half as much again where it must grow.

        One that is `far` lies in the host's memory, where the card reads it line by line.
        """
        held = self._buffers.get(name)
        moves = far != (name in self._far)
        if held is None or moves or held.size < size or held.dtype != np.dtype(dtype):
            size = max(size, 0 if held is None or moves else 3 * held.size // 2)
            self._buffers.pop(name, None)
            self._far.discard(name)
            self._buffers[name] = self._distant(size, dtype) if far else self.zeros(size, dtype)
            if far:
                self._far.add(name)
            self._version += 1
        return self._buffers[name]

    @cached_property
    def most_cell_bytes(self) -> int:
        """Bytes of a slice above which its cells stay with the host; the rest is the models'."""
        if self.simulated:
            return 1 << 62
        return int(self._cuda.current_context().get_memory_info().total) // CELLS_SHARE

    def _distant(self, size: int, dtype: Any) -> Any:
        """Memory of the host that kernels read as if it were the card's."""
        with _told_when_full(
            size, dtype, "The host needs {:.2f} GiB more that the card can read, for a slice too "
            "large for the card, but has not ({}). Cut the slices, or use device='cpu'.",
        ):  # fmt: skip
            return self._cuda.mapped_array(max(int(size), 1), dtype)

    def zeros(self, size: int, dtype: Any = np.float64) -> Any:
        """Zeros on the card, in memory of its own."""
        with _told_when_full(
            size, dtype, "The card needs {:.2f} GiB more for this model or slice, but it is full "
            "({}). End other programs on it, lower the rank, cut the slices, or use device='cpu'.",
        ):  # fmt: skip
            made = self._cuda.device_array(max(int(size), 1), dtype)
            self._fill(made)
            return made

    def settle(self, *names: str) -> None:
        """Make the named buffers zero if what began to add to them has never ended."""
        if self.unsettled:
            for name in names:
                if name in self._buffers:
                    self._fill(self._buffers[name])
            self.unsettled = False

    def clear(self, buffer: Any) -> None:
        """Make a buffer zero."""
        self._fill(buffer)

    def _fill(self, buffer: Any) -> None:
        if self.simulated:
            buffer.copy_to_device(np.zeros(buffer.shape, buffer.dtype))
        else:
            fill_kernel()[256, 256, self.stream](buffer)

    def pinned(self, size: int, dtype: Any = np.float64) -> Array:
        """Zeros on the host that the card can reach by itself."""
        made = np.asarray(self._cuda.pinned_array(max(size, 1), dtype))
        made[:] = 0
        return made

    def push(self, array: Array, buffer: Any) -> None:
        """Copy a flat array to the front of a buffer."""
        if isinstance(buffer, np.ndarray):  # far
            self.stream.synchronize()  # somebody may still read it
            np.asarray(buffer)[: array.size] = array
        elif array.size:
            buffer[: array.size].copy_to_device(array, stream=self.stream)

    def pull(self, buffer: Any, size: int) -> Array:
        """The first numbers of a buffer, on the host."""
        if not size:
            return np.empty(0, buffer.dtype)
        found = buffer[:size].copy_to_host(stream=self.stream)
        self.wait()
        return np.asarray(found)

    @cached_property
    def side(self) -> Any:
        """A second stream, for what may travel while the first one works."""
        return self._cuda.stream()

    def event(self) -> Any:
        """A mark in a stream that another can wait for."""
        return self._cuda.event()

    def wait(self) -> None:
        """Until all that was asked for is done."""
        if self.meanwhile is not None:
            wish, self.meanwhile = self.meanwhile, None
            with suppress(Exception):  # it was a favour
                wish()
        self.stream.synchronize()


@contextmanager
def _told_when_full(size: int, dtype: Any, words: str) -> Iterator[None]:
    """Turn what the driver says where memory is short into words with numbers and a way out."""
    try:
        yield
    except Exception as error:
        if "MEMORY" not in str(error).upper():
            raise
        wanted = int(size) * np.dtype(dtype).itemsize / 2**30
        raise BackendError(words.format(wanted, error)) from error


@cache
def fill_kernel() -> Any:
    """Sets a buffer to zero."""
    from numba import cuda

    from onlinegcp.kernels.cuda.lanes import kernel

    @kernel
    def fill(buffer):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        while i < buffer.shape[0]:
            buffer[i] = 0
            i += cuda.gridsize(1)

    return fill
