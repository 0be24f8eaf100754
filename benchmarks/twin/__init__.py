"""The C++ twin of an SGD iteration: compiled here with g++, called through ctypes."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess

import numpy as np

from benchmarks.problems import BUILD, Case

SOURCE = BUILD.parent / "twin" / "twin.cpp"
# The relaxed rules are those of kernels/jit.py: reassociation, contraction, no signed zeros,
# reciprocals; NaN and infinity stay honest.
FLAGS = [
    "-O3",
    "-march=native",
    "-std=c++17",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fassociative-math",
    "-fno-signed-zeros",
    "-freciprocal-math",
    "-ffp-contract=fast",
    "-shared",
    "-fPIC",
]
LOSS_CODES = {"gaussian": 0, "poisson": 1, "bernoulli_odds": 2}


def compile_twin() -> ctypes.CDLL:
    """Compile the source (once per version of it) and load it."""
    key = hashlib.sha256(SOURCE.read_bytes() + " ".join(FLAGS).encode()).hexdigest()[:12]
    library = BUILD / f"twin-{key}.so"
    if not library.exists():
        BUILD.mkdir(exist_ok=True)
        subprocess.run(["g++", *FLAGS, str(SOURCE), "-o", str(library)], check=True)
    twin = ctypes.CDLL(str(library))
    twin.twin_create.restype = ctypes.c_void_p
    twin.twin_gradient.restype = ctypes.c_int64
    return twin


class Twin:
    """A case loaded into the twin.

    Parameters
    ----------
    case
        What to solve.
    rate
        Adam's learning rate.
    blas
        Use SciPy's OpenBLAS for the four matrix products of the history instead of the twin's
        own loops; the benchmark times both and reports the faster one.
    """

    def __init__(self, case: Case, *, rate: float, seed: int = 0, blas: bool = False) -> None:
        self._library = compile_twin()
        self._case = case
        # Kept alive as long as the twin, which borrows them.
        self._index = None if case.index is None else np.ascontiguousarray(case.index, np.int32)
        self._value = np.ascontiguousarray(case.value, np.float64)
        self._handle = ctypes.c_void_p(
            self._library.twin_create(
                ctypes.c_int(len(case.shape)),
                _pointer(np.array(case.shape, np.int64)),
                ctypes.c_int(case.rank),
                ctypes.c_int(LOSS_CODES[case.loss]),
                None if self._index is None else _pointer(self._index),
                _pointer(self._value),
                ctypes.c_int64(self._value.size),
                ctypes.c_int64(case.draws),
                ctypes.c_int64(case.zeros),
                _pointer(np.concatenate(case.factors)),
                _pointer(np.concatenate(case.old_factors)),
                _pointer(np.ascontiguousarray(case.weights)),
                _pointer(np.ascontiguousarray(case.history)),
                ctypes.c_double(rate),
                ctypes.c_double(case.lower),
                ctypes.c_uint64(seed),
                _dgemm() if blas else None,
            )
        )

    def run(self, iterations: int) -> None:
        """Take SGD steps."""
        self._library.twin_run(self._handle, ctypes.c_int64(iterations))

    def gradient(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
        """Rows, data and weights of the samples of one iteration, and the gradient of each mode."""
        case = self._case
        most = case.draws + case.zeros
        rows = np.zeros((most, len(case.shape)), np.int64)
        x, weight, out = np.zeros(most), np.zeros(most), np.zeros((sum(case.shape), case.rank))
        count = self._library.twin_gradient(self._handle, *map(_pointer, (rows, x, weight, out)))
        return rows[:count], x[:count], weight[:count], self._split(out)

    def factors(self) -> list[np.ndarray]:
        """Copies of the factor matrices."""
        out = np.zeros((sum(self._case.shape), self._case.rank))
        self._library.twin_factors(self._handle, _pointer(out))
        return self._split(out)

    def _split(self, rows: np.ndarray) -> list[np.ndarray]:
        return np.split(rows, np.cumsum(self._case.shape)[:-1])

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            self._library.twin_destroy(self._handle)


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    # data_as keeps the array alive while the pointer lives, which a bare address would not.
    return array.ctypes.data_as(ctypes.c_void_p)


def _dgemm() -> ctypes.c_void_p:
    """Address of the dgemm that SciPy ships, which is the one Numba calls too."""
    from scipy.linalg import cython_blas

    capsule = cython_blas.__pyx_capi__["dgemm"]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return ctypes.c_void_p(api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule)))
