"""Every method, loss, history, sampler and step behind one protocol: the conformance suite."""

from __future__ import annotations

import numpy as np
import pytest

from every_method import every_method
from onlinegcp import testing
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import LOSS_NAMES, Loss, get_loss
from onlinegcp.solvers.sgd.history import KINDS as HISTORIES
from onlinegcp.solvers.sgd.sampling import KINDS as SAMPLERS
from onlinegcp.solvers.sgd.steps import KINDS as STEPS
from onlinegcp.streaming import (
    ACP,
    GOCPTE,
    OLSTEC,
    POST,
    RLST,
    SDT,
    VBI,
    CPStream,
    Ensign,
    OnlineCP,
    OnlineSGD,
    SeekAndDestroy,
)
from onlinegcp.testing import LEARNING_CHECKS, PROTOCOL_CHECKS, check_streaming
from paper_models import gcp_model

pytestmark = [
    pytest.mark.slow,
    # SDT says so where noise spoils its window, and must keep the protocol all the same.
    pytest.mark.filterwarnings("ignore::onlinegcp.DivergenceWarning"),
]

# Small solves: the protocol must hold whatever is learned.
QUICK = {
    "solver": "sgd",
    "init_slices": 5,
    "init_starts": 1,
    "history_size": 6,
    "weight_rate": 0.3,
    "weight_epochs": 2,
    "weight_iterations": 15,
    "factor_rate": 0.02,
    "factor_epochs": 2,
    "factor_iterations": 5,
}
# Solves that converge on the planted streams, with a memory of about ten slices.
TUNED = {
    "solver": "sgd",
    "init_slices": 10,
    "init_starts": 3,
    "history": "exponential",
    "history_decay": 0.9,
    "history_weight": 3.0,
    "weight_rate": 0.3,
    "weight_epochs": 3,
    "weight_iterations": 50,
    "factor_rate": 0.02,
    "factor_epochs": 2,
    "factor_iterations": 20,
}
# A yes-or-no slice says less about the factors than others do: the past must weigh less against it.
ADJUSTED = {"bernoulli_logit": {"history_weight": 1.0}}

# Parameters that forget.
FORGETFUL = {
    "online_sgd": {"relative_rate": 1.0},
    **{name: {"forget": 0.8} for name in ("online_cp", "cp_stream", "post", "mast", "gocpte")},
    "vbi": {"window": 5, "init_slices": 1},
    "seek_and_destroy": {"batch": 5, "max_rank": 6},
    "sambaten": {"batch": 5, "adapt": 0.5, "forget": 0.8},
    "ensign": {"batch": 5, "max_rank": 6, "forget": 0.8},
}
MODELS = every_method(FORGETFUL, init_slices=10)
VARIANTS = {
    "online_cp, jacobi": OnlineCP(2, order="jacobi", forget=0.8, init_slices=5, init_starts=1),
    "online_sgd, rate given": OnlineSGD(2, rate=1e-3, decay=0.1, init_slices=5, init_starts=1),
    "online_cp, batches": OnlineCP(2, batch=3, forget=0.8, init_slices=5, init_starts=1),
    "online_sgd, tecpsgd": OnlineSGD(
        2, variant="tecpsgd", rate=1e-3, ridge=0.1, init_slices=5, init_starts=1
    ),
    "cp_stream, bounded": CPStream(2, column_bound=True, init_slices=5, init_starts=1),
    "post, batches": POST(2, batch=3, init_slices=5, init_starts=1),
    "post, no time row": POST(2, time_row=False, init_slices=5, init_starts=1),
    "vbi, first slice as it is": VBI(2, window=3, clean_first=False, fill="authors"),
    "seek_and_destroy, rank given": SeekAndDestroy(2, batch=4, batch_rank=2, match="first"),
    "ensign, nonnegative": Ensign(2, batch=4, nonnegative=True, init_slices=5, init_starts=1),
    "cp_stream, nonnegative": CPStream(2, nonnegative=True, init_slices=5, init_starts=1),
    "olstec, simplified": OLSTEC(2, form="simplified", init_slices=5, init_starts=1),
    "olstec, no ridge": OLSTEC(2, ridge=0.0, weight_ridge=0.0, init_slices=5, init_starts=1),
    "rlst, window": RLST(2, window=6, repeats=1, init_slices=5, init_starts=1),
    "sdt, plain window": SDT(2, forget=1.0, window=5, init_slices=5, init_starts=1),
    "acp, as coded": ACP(2, regressors="data", samples=20, init_slices=5, init_starts=1),
    "rolcp": ACP(2, variant="rolcp", init_slices=5, init_starts=1),
    "gocpte, one pass": GOCPTE(2, passes=1, ridge=0.0, init_slices=5, init_starts=1),
    "least squares": gcp_model(2, weight_solver="least_squares", **QUICK),
    "bounded least squares": gcp_model(2, weight_solver="least_squares", lower=0.0, **QUICK),
    "lower bound": gcp_model(2, lower=0.05, **QUICK),
    "penalties": gcp_model(2, factor_penalty=0.1, weight_penalty=0.1, **QUICK),
    "few samples": gcp_model(
        2, "poisson", gradient_listed=9, gradient_zeros=9, objective_listed=30, **QUICK
    ),
    "loss with a parameter": gcp_model(2, "huber", **{**QUICK, "step": "adagrad"}),
    "half-life given": gcp_model(2, forget=8.0, init_slices=5, init_starts=1),
    "nothing forgotten": gcp_model(2, "poisson", forget=1.0, init_slices=5, init_starts=1),
    "data in the window": gcp_model(2, "poisson", history="data", **QUICK),
}

# What an option of a method could break.
ESSENTIAL = (
    testing.several_slices_equal_one_by_one,
    testing.transform_and_predict_change_nothing,
    testing.empty_slice_is_accepted,
    testing.sparse_and_dense_slices_mix,
    testing.state_does_not_grow,
    testing.saved_and_loaded_goes_on_bit_for_bit,
    testing.bad_slices_leave_the_model_unchanged,
)


def given(loss):
    """A start for losses whose static fit of a few small slices has no finite minimum."""
    if loss not in ("bernoulli_logit", "poisson_log"):
        return None
    stream = testing.planted_stream(get_loss(loss))
    return KTensor(stream.rows.mean(axis=0), stream.factors[0])


def log_cosh():
    return Loss(
        "log_cosh",
        value=lambda x, m: np.logaddexp(m - x, x - m),
        deriv=lambda x, m: np.tanh(m - x),
    )


@pytest.mark.parametrize("name", MODELS)
def test_method_passes_the_whole_suite(name):
    check_streaming(MODELS[name])


@pytest.mark.parametrize("name", VARIANTS)
def test_variant_keeps_the_protocol(name):
    check_streaming(VARIANTS[name], ESSENTIAL)


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_loss_keeps_the_protocol(loss):
    options = {"init_slices": 5, "init_starts": 1, "init": given(loss)}
    check_streaming(gcp_model(2, loss, **options), PROTOCOL_CHECKS)


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_loss_keeps_the_protocol_with_sampled_gradients(loss):
    check_streaming(gcp_model(2, loss, **QUICK, init=given(loss)), ESSENTIAL)


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_loss_is_learned(loss):
    check_streaming(gcp_model(2, loss, init_slices=10), LEARNING_CHECKS)


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_loss_is_learned_with_sampled_gradients(loss):
    check_streaming(gcp_model(2, loss, **(TUNED | ADJUSTED.get(loss, {}))), LEARNING_CHECKS)


@pytest.mark.parametrize("solver", ["auto", "sgd"])
def test_a_loss_of_ones_own_keeps_the_protocol(solver):
    options = {"init_slices": 5, "init_starts": 1} if solver == "auto" else QUICK
    check_streaming(gcp_model(2, log_cosh(), **options), ESSENTIAL)


@pytest.mark.parametrize("solver", ["auto", "sgd"])
def test_a_loss_of_ones_own_is_learned(solver):
    # Its slopes never exceed 1, so that the past must weigh less than against squares.
    sampled = TUNED | {"history_weight": 0.3, "weight_epochs": 2, "factor_epochs": 1}
    options = {"init_slices": 10} if solver == "auto" else sampled
    check_streaming(gcp_model(2, log_cosh(), **options), LEARNING_CHECKS)


@pytest.mark.parametrize("history", HISTORIES)
def test_history_keeps_the_protocol(history):
    check_streaming(gcp_model(2, "gaussian", history=history, **QUICK), ESSENTIAL)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_sampler_keeps_the_protocol(sampler):
    check_streaming(gcp_model(2, sampler=sampler, **QUICK), ESSENTIAL)


@pytest.mark.parametrize("step", STEPS)
def test_step_keeps_the_protocol(step):
    rates = {"weight_rate": 1e-3, "factor_rate": 1e-4}
    check_streaming(gcp_model(2, step=step, **(QUICK | rates)), ESSENTIAL)
