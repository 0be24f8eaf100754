"""The loss record: equality, copies, domain checks and messages."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from onlinegcp.errors import DataError, StateError
from onlinegcp.losses import LOSS_NAMES, Loss, get_loss

ALL = pytest.mark.parametrize("loss", [get_loss(name) for name in LOSS_NAMES], ids=repr)


def squared(x, m):
    return (x - m) ** 2


def squared_slope(x, m):
    return 2.0 * (m - x)


@ALL
def test_a_built_in_loss_survives_pickle_and_copies(loss):
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert copy.deepcopy(loss) is loss
    assert copy.copy(loss) is loss
    assert hash(loss) == hash(get_loss(loss.name))


def test_a_loss_of_ones_own_survives_pickle_if_its_functions_do():
    loss = Loss("mine", value=np.hypot, deriv=np.maximum, check=False, lower=1.0)
    again = pickle.loads(pickle.dumps(loss))
    assert again.lower == 1.0
    assert again.value(3.0, 4.0) == 5.0
    assert copy.deepcopy(loss) is loss
    assert loss != Loss("mine", value=np.hypot, deriv=np.maximum, check=False, lower=1.0)


def test_losses_differ_by_name_and_parameter():
    assert get_loss("huber", delta=2) == get_loss("huber", delta=2.0)
    assert get_loss("huber", delta=2) != get_loss("huber")
    assert get_loss("gaussian") != get_loss("poisson")
    assert get_loss("gaussian") != "gaussian"


def test_a_loss_reads_like_the_call_that_makes_it():
    assert repr(get_loss("negative_binomial", r=3)) == "negative_binomial(r=3.0)"
    assert repr(get_loss("poisson")) == "poisson"
    assert repr(Loss("mine", value=squared, deriv=squared_slope)) == "Loss('mine')"


def test_a_loss_is_read_only():
    loss = get_loss("poisson")
    with pytest.raises(StateError, match=r"read-only, but lower = 1.0 was assigned to poisson"):
        loss.lower = 1.0
    with pytest.raises(StateError, match="read-only"):
        del loss.lower
    assert loss.lower == 0.0


def test_a_loss_of_ones_own_cannot_be_written_down():
    loss = Loss("mine", value=squared, deriv=squared_slope)
    with pytest.raises(DataError, match=r"Only built-in losses.*'mine' was made from functions"):
        loss.to_dict()
    with pytest.raises(DataError, match="Pass minimum="):
        loss.deviance(1.0, 1.0)


def test_a_loss_of_ones_own_with_a_minimum_has_a_deviance():
    loss = Loss("mine", value=squared, deriv=squared_slope, minimum=lambda x: 0.0 * x)
    np.testing.assert_allclose(loss.deviance([1.0, 2.0], [1.0, 4.0]), [0.0, 8.0])


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("gaussian", [-1e300, 0.0, 5.5], [np.nan, np.inf, -np.inf]),
        ("poisson", [0.0, 0.5, 1e9], [-1e-9, np.nan]),
        ("poisson_log", [0.0, 3.0], [-1.0]),
        ("bernoulli_odds", [0.0, 1.0], [0.5, 2.0, -1.0, np.nan]),
        ("bernoulli_logit", [0.0, 1.0], [1.0001]),
        ("rayleigh", [1e-300, 3.0], [0.0, -1.0]),
        ("gamma", [1e-300, 3.0], [0.0, -1.0, np.inf]),
        ("huber", [-3.0, 3.0], [np.inf]),
        ("negative_binomial", [0.0, 0.5, 3.0], [-2.0]),
        ("beta", [0.0, 3.0], [-2.0]),
        ("zero_truncated_poisson", [1.0, 2.5], [0.0, 0.5]),
    ],
)
def test_data_inside_the_domain_pass_and_data_outside_are_named(name, good, bad):
    loss = get_loss(name)
    loss.check(good)
    loss.check(np.empty(0))
    for value in bad:
        with pytest.raises(DataError, match=rf"loss '{name}' needs .*data.*entry 2 is {value}"):
            loss.check([good[0], good[1], value, good[0]])


def test_every_loss_is_covered_by_the_domain_test():
    marks = test_data_inside_the_domain_pass_and_data_outside_are_named.pytestmark
    assert {row[0] for row in marks[0].args[1]} == set(LOSS_NAMES)


def test_the_message_says_where_the_entry_is_and_what_to_do():
    loss = get_loss("poisson")
    index = np.array([[0, 4], [2, 3]], dtype=np.int32)
    with pytest.raises(DataError, match=r"entry 1 at index \(2, 3\) is -2.0. Use loss='gaussian'"):
        loss.check(np.array([1.0, -2.0]), index)
    with pytest.raises(DataError, match=r"entry 1 at index \(5,\) is -2.0"):
        loss.check(np.array([1.0, -2.0]), np.array([[3], [5]]))
    with pytest.raises(DataError, match=r"entry 4 at index \(1, 1\) is -1"):
        loss.check(np.array([[0, 1, 2], [3, -1, -5]]))
    with pytest.raises(DataError, match=r"data >= 0, but entry 0 is -1.0"):
        loss.check(-1)


def test_unlisted_zeros_are_refused_where_zero_is_no_datum():
    for name in LOSS_NAMES:
        loss = get_loss(name)
        if loss.unlisted_zeros_allowed:
            loss.check([1.0], unlisted_zeros=7)
            continue
        loss.check([1.0], unlisted_zeros=0)
        with pytest.raises(DataError, match=r"7 unlisted cells mean zero.*unlisted='missing'"):
            loss.check([1.0], unlisted_zeros=7)
    assert get_loss("beta").unlisted_zeros_allowed
    assert not get_loss("beta", b=-0.5).unlisted_zeros_allowed


def test_strings_and_objects_are_refused_as_data():
    with pytest.raises(DataError, match="needs data >= 0, but the values have type <U1"):
        get_loss("poisson").check(np.array(["a"]))
    with pytest.raises(DataError, match="type complex128"):
        get_loss("gaussian").check(np.array([1j]))


def test_a_loss_of_ones_own_may_bound_its_data():
    loss = Loss("mine", value=squared, deriv=squared_slope, domain=(0.0, 5.0))
    loss.check([0.0, 5.0])
    assert loss.zero_shape == "unknown"
    with pytest.raises(DataError, match=r"'mine' needs data in \[0, 5\], but entry 1 is 6.0"):
        loss.check([0.0, 6.0])
    assert Loss("mine", value=squared, deriv=squared_slope, domain="positive").zero_shape is None
