"""The conformance suite: what every streaming method must do, as checks that run on any of them.

`check_streaming(Model(...))` runs all of `CHECKS`. Each check takes an unfitted model, works on
clones of it, and raises AssertionError with a sentence about what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from onlinegcp.testing.learning import (
    error_falls_again_after_a_change,
    stationary_stream_is_recovered,
)
from onlinegcp.testing.planted import PlantedStream as PlantedStream
from onlinegcp.testing.planted import planted_stream as planted_stream
from onlinegcp.testing.protocol import (
    bad_slices_leave_the_model_unchanged,
    clone_carries_parameters_only,
    declarations_are_kept,
    empty_slice_is_accepted,
    entry_order_is_irrelevant,
    inputs_stay_untouched,
    missing_cells_are_not_zeros,
    returns_self_and_counts,
    same_seed_same_bits,
    saved_and_loaded_goes_on_bit_for_bit,
    several_slices_equal_one_by_one,
    slices_too_large_are_refused,
    sparse_and_dense_slices_mix,
    state_does_not_grow,
    transform_and_predict_change_nothing,
)

Check: TypeAlias = Callable[[Any], None]

# What any method must do, whatever it learns.
PROTOCOL_CHECKS: tuple[Check, ...] = (
    returns_self_and_counts,
    several_slices_equal_one_by_one,
    transform_and_predict_change_nothing,
    inputs_stay_untouched,
    same_seed_same_bits,
    entry_order_is_irrelevant,
    empty_slice_is_accepted,
    missing_cells_are_not_zeros,
    sparse_and_dense_slices_mix,
    state_does_not_grow,
    declarations_are_kept,
    slices_too_large_are_refused,
    saved_and_loaded_goes_on_bit_for_bit,
    bad_slices_leave_the_model_unchanged,
    clone_carries_parameters_only,
)
# What needs parameters that suit the stream: rates, and some forgetting.
LEARNING_CHECKS: tuple[Check, ...] = (
    stationary_stream_is_recovered,
    error_falls_again_after_a_change,
)
CHECKS = PROTOCOL_CHECKS + LEARNING_CHECKS


def check_streaming(model: Any, checks: Iterable[Check] | None = None) -> None:
    """Run the conformance suite on a streaming model.

    Parameters
    ----------
    model
        An unfitted estimator; its parameters are used as they are.
    checks
        Which checks; all of them by default.

    Examples
    --------
    >>> from onlinegcp.streaming import OnlineCP
    >>> check_streaming(OnlineCP(2, init_slices=5, forget=0.8))
    """
    for check in CHECKS if checks is None else checks:
        check(model)
