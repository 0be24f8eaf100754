"""Whether the card can compute a user's own loss: compiled there, and compared with NumPy."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import warnings
from functools import lru_cache

import numpy as np

from onlinegcp.kernels.cuda.card import card
from onlinegcp.losses import Loss
from onlinegcp.losses.trial import trial_points

ROLES = ("value", "deriv", "fisher")


@lru_cache(maxsize=64)
def is_known(loss: Loss) -> bool:
    """Whether the card can compute a loss; says once why it cannot."""
    if loss.code >= 0:
        return True
    reason = _why_not(loss)
    if reason:
        warnings.warn(
            f"The loss {loss.name!r} cannot be computed on the card ({reason}). Its slices are "
            "learned on the CPU. Write its functions with arithmetic and NumPy's functions of "
            "single numbers, or pass device='cpu'.",
            stacklevel=2,
        )
    return not reason


def _why_not(loss: Loss) -> str:
    """Compare the compiled functions with the user's own at the points where these were tried."""
    from onlinegcp.kernels.cuda.formulas import formulas_of
    from onlinegcp.kernels.cuda.trial import try_kernel

    x, m = trial_points(loss)
    try:
        made = formulas_of(loss)
        found = try_kernel(card(), made, x, m)
    except Exception as failure:  # whatever the compiler says of Python that it does not know
        words = [line.strip() for line in str(failure).splitlines() if line.strip()]
        return f"{type(failure).__name__}: {words[0] if words else 'no reason given'}"
    with np.errstate(all="ignore"):
        for role, numbers in zip(ROLES, found, strict=True):
            expected = getattr(loss, role)(x, m)
            # Differences of slopes, where there is no curvature, are good to few digits.
            if not np.allclose(numbers, expected, rtol=1e-6, atol=1e-9, equal_nan=True):
                return f"its {role} of single numbers is not that of arrays"
    return ""
