"""Names of the columns of an Arrow stream, whatever their types.

Polars has them, too, but only where it knows all types; a column nobody asks for may be of any.
"""

from __future__ import annotations

import ctypes
from typing import Any


class _Schema(ctypes.Structure):
    """`ArrowSchema` of the Arrow C data interface."""


class _Stream(ctypes.Structure):
    """`ArrowArrayStream` of the Arrow C stream interface."""


_Release = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))
_GetSchema = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Schema))
_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.POINTER(_Schema)),
    ("release", _Release),
    ("private_data", ctypes.c_void_p),
]
_Stream._fields_ = [
    ("get_schema", _GetSchema),
    ("get_next", ctypes.c_void_p),
    ("get_last_error", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


def column_names(stream: Any) -> list[str]:
    """The names.

    Parameters
    ----------
    stream
        A stream as ADBC gives it, with the `address` of its structure.
    """
    source, schema = _Stream.from_address(stream.address), _Schema()
    if source.get_schema(ctypes.byref(source), ctypes.byref(schema)):
        raise ValueError("the columns cannot be told")
    try:
        children = [schema.children[n].contents for n in range(schema.n_children)]
        return [(child.name or b"").decode() for child in children]
    finally:
        schema.release(ctypes.byref(schema))
