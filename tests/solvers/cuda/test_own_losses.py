"""Which losses of a user's own the card may compute, without a card."""

import warnings

import numpy as np
import pytest

from onlinegcp import Loss, get_loss
from onlinegcp.losses import LOSS_NAMES
from onlinegcp.solvers.cuda import own_losses


def _own(name):
    return Loss(
        name,
        value=lambda x, m: np.log(np.cosh(m - x)),
        deriv=lambda x, m: np.tanh(m - x),
    )


@pytest.fixture
def tried(monkeypatch):
    """What stands for the card: gives what it was told to."""
    from onlinegcp.kernels.cuda import trial

    answers = []

    def try_kernel(card, formulas, x, m):
        answer = answers.pop()
        if isinstance(answer, Exception):
            raise answer
        return answer(x, m)

    monkeypatch.setattr(trial, "try_kernel", try_kernel)
    monkeypatch.setattr(own_losses, "card", lambda: None)
    return answers


def _as_arrays(loss):
    return lambda x, m: np.stack([getattr(loss, role)(x, m) for role in own_losses.ROLES])


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_built_in_losses_are_known(name):
    assert own_losses.is_known(get_loss(name))


def test_a_loss_that_gives_the_same_numbers_there_is_known(tried):
    loss = _own("same")
    tried.append(_as_arrays(loss))
    assert own_losses.is_known(loss)


def test_a_loss_that_the_compiler_refuses_is_told_once(tried):
    loss = _own("refused")
    tried.append(TypeError("\n\n  Unknown attribute 'gammaln'\nmore"))
    with pytest.warns(UserWarning, match="'refused' cannot be .*TypeError: Unknown attribute"):
        assert not own_losses.is_known(loss)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not own_losses.is_known(loss)


def test_a_loss_that_means_something_else_for_single_numbers_is_refused(tried):
    loss = _own("other")
    wrong = np.array([[0.0], [1e-3], [0.0]])
    tried.append(lambda x, m: _as_arrays(loss)(x, m) + wrong)
    with pytest.warns(UserWarning, match="its deriv of single numbers is not that of arrays"):
        assert not own_losses.is_known(loss)
