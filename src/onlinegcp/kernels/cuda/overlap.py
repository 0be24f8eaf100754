"""Kernels of a recording that make ready while the one before ends.

Between two kernels of which one waits for the other a card does nothing for about a microsecond,
and a short step is a hundred of them. Cards from 2022 on can put a kernel's blocks in their places
while the one before still works: the kernel begins by waiting for all that came before it.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined,misc"

from __future__ import annotations

from typing import Any

from numba import cuda

from onlinegcp.kernels.cuda.lanes import SIMULATED, device

NEW_ENOUGH = (9, 0)


def can_overlap() -> bool:
    """Whether the card knows the instructions."""
    if SIMULATED:
        return False
    try:
        return bool(cuda.get_current_device().compute_capability >= NEW_ENOUGH)
    except Exception:  # no card: kernels are compiled to be looked at
        return True


if can_overlap():
    from llvmlite import ir
    from numba import types
    from numba.cuda.extending import intrinsic

    @intrinsic
    def _wait_then_let_go(_context):
        def code(context, builder, _signature, _arguments) -> Any:
            kind = ir.FunctionType(ir.VoidType(), [])
            text = "griddepcontrol.wait; griddepcontrol.launch_dependents;"
            builder.call(ir.InlineAsm(kind, text, "~{memory}", side_effect=True), [])
            return context.get_dummy_value()

        return types.void(), code

    @device
    def after_others():
        """The first thing a kernel does: until all kernels before it have ended."""
        _wait_then_let_go()  # type: ignore[call-arg]

else:

    @device
    def after_others():
        """Kernels begin when those before them have ended."""
