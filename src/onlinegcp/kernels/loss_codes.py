# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
"""Built-in losses as compiled scalar functions, chosen by their integer code.

Kernels take the code and the parameter of a loss instead of a function: code that takes or
closes over a compiled function misses Numba's disk cache in every process. The chain of
comparisons costs about a nanosecond, since the branch is the same for a whole kernel call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onlinegcp.kernels.jit import kernel
from onlinegcp.losses import FORMULAS


def by_code(name: str, formulas: Mapping[int, Any]) -> Any:
    """Compile a function of (code, p, x, m): the formula of that code, NaN where there is none.

    Numba neither indexes into a dictionary of functions nor unrolls a loop over one, so the chain
    of comparisons is written here, as long as the table of losses is.
    """
    lines = [f"def {name}(code, p, x, m):"]
    for code in formulas:
        lines += [f"    if code == {code}:", f"        return formula_{code}(x, m, p)"]
    lines.append("    return nan")
    known = {f"formula_{code}": kernel(formula) for code, formula in formulas.items()}
    known |= {"nan": float("nan"), "__name__": __name__}
    # Numba keeps compiled code by the file it was written in.
    exec(compile("\n".join(lines), __file__, "exec"), known)
    return kernel(known[name])


loss_value = by_code("loss_value", {code: value for code, (value, _) in FORMULAS.items()})
loss_deriv = by_code("loss_deriv", {code: deriv for code, (_, deriv) in FORMULAS.items()})
