"""The detector of abrupt change, fed with numbers whose deviations are known."""

import numpy as np
import pytest

from onlinegcp.streaming import surprise
from onlinegcp.streaming.surprise import ALLOWANCE, FEWEST, MOST, WINDOW, Surprise

QUIET = [1.0, 1.2, 0.8, 1.1, 0.9] * 4


def watched(losses, gains=None):
    detector = Surprise()
    for loss, gain in zip(losses, gains or [0.1 * loss for loss in losses], strict=True):
        detector.watch(10 * loss, 10 * (loss - gain), 10)
    return detector


def test_a_quiet_stream_raises_no_suspicion():
    rng = np.random.default_rng(0)
    detector = Surprise()
    for _ in range(2000):
        loss = 100 * np.exp(0.1 * rng.standard_normal())
        gain = np.exp(0.3 * rng.standard_normal())
        detector.watch(loss, loss - gain, 50)
        assert not detector.alarmed


def test_one_odd_slice_is_suspicious_but_no_alarm():
    detector = watched([*QUIET, 1e6])
    assert detector.suspects
    assert not detector.alarmed


def test_three_odd_slices_are_an_alarm_whatever_their_size():
    assert watched([*QUIET, 50.0, 50.0, 50.0]).alarmed
    assert not watched([*QUIET, 50.0, 50.0]).alarmed


def test_after_a_few_slices_only_great_changes_are_seen():
    few = [1.0, 1.2, 0.8, 1.1]
    assert watched([*few, 50.0, 50.0, 50.0]).alarmed
    assert not watched([*few, 2.0, 2.0, 2.0]).alarmed
    assert watched([*QUIET, 2.0, 2.0, 2.0]).alarmed
    assert not watched([*few[: FEWEST - 1], *[50.0] * 8]).alarmed


def test_the_first_slices_of_quiet_streams_raise_no_alarm():
    for seed in range(400):
        rng = np.random.default_rng([seed, 2])
        losses = np.exp(0.2 * rng.standard_normal(14))
        detector = watched(losses.tolist(), (0.1 * np.exp(0.4 * rng.standard_normal(14))).tolist())
        assert not detector.alarmed


def test_the_gain_alone_can_raise_the_alarm():
    gains = [0.01] * len(QUIET) + [0.5] * 3
    assert watched([*QUIET, 1.0, 1.0, 1.0], gains).alarmed


def sum_after(past, value):
    """The first CUSUM after one more loss, the gains standing still."""
    detector = Surprise(losses=tuple(past), gains=(1e-3,) * WINDOW, n_known=WINDOW)
    detector.watch(value, value - 1e-3, 1)
    return detector.sums[0]


def test_each_slice_adds_its_deviations_less_the_allowance():
    past = [1.0, 2.0] * (WINDOW // 2)
    # The median of the logarithms is log(2) / 2, and so is their median distance from it.
    deviation = 1.4826 * np.log(2) / 2
    value = float(np.exp(np.log(2) / 2 + 3 * deviation))
    assert sum_after(past, value) == pytest.approx(3.0 - ALLOWANCE)
    assert sum_after(past, 1e9) == pytest.approx(MOST - ALLOWANCE)


def test_losses_below_zero_are_compared_as_they_are():
    past = [-1.0, -2.0] * (WINDOW // 2)
    # -1.5 is the middle and .5 the median distance from it.
    assert sum_after(past, -1.5 + 3 * 1.4826 * 0.5) == pytest.approx(3.0 - ALLOWANCE)
    assert sum_after(past, 30.0) == pytest.approx(MOST - ALLOWANCE)


def test_too_few_values_say_nothing():
    assert max(watched([1.0] * (FEWEST - 1) + [1e9]).sums) == 0.0
    assert max(watched([1.0] * FEWEST + [1e9]).sums) > 0.0


def test_forgotten_values_count_no_more():
    detector = watched([*QUIET, 50.0, 50.0, 50.0])
    detector.forget()
    detector.watch(1e9, 0.0, 1)
    assert not detector.suspects


def test_it_goes_on_from_its_arrays_bit_for_bit():
    detector = watched([*QUIET, 3.0])
    twin = Surprise.from_dict(detector.to_dict())
    for one in (detector, twin):
        one.watch(17.0, 4.0, 9)
    for name, array in detector.to_dict().items():
        np.testing.assert_array_equal(array, twin.to_dict()[name])


@pytest.mark.parametrize("shift", [0.0, -3.0])
def test_the_short_way_for_usual_values_changes_nothing(shift, monkeypatch):
    """Losses of both signs, steady and wild ones: sums as if every deviation were worked out."""
    rng = np.random.default_rng(1)
    spread = np.repeat([0.01, 0.3, 2.0], 100)
    losses = np.exp(spread * rng.standard_normal(300)) + shift
    gains = np.exp(spread * rng.standard_normal(300)) * 0.01

    def sums():
        detector, found = Surprise(), []
        for loss, gain in zip(losses, gains, strict=True):
            detector.watch(loss, loss - gain, 1)
            found.append(detector.sums)
        return np.array(found)

    short = sums()
    monkeypatch.setattr(surprise, "_surely_usual", lambda *_: False)
    np.testing.assert_array_equal(short, sums())
    assert (short > 0.0).any()


def test_a_steady_stream_tells_of_steps_of_a_fifth_once_the_window_is_full():
    """Noisy measurements: what is lost when their patterns change is a fifth of the noise."""
    steady = [1.0, 1.01] * (WINDOW // 2)
    above = np.log(1.2) - np.log(1.01) / 2
    assert sum_after(steady, 1.2) == pytest.approx(above / 0.05 - ALLOWANCE)
    # Ten values may be as steady as that by chance.
    detector = watched(steady[: WINDOW // 2])
    detector.watch(12.0, 12.0 - 1.0, 10)
    assert detector.sums[0] == pytest.approx(above / 0.1 - ALLOWANCE)


def test_an_outcry_is_as_many_alarms_as_asked_for():
    detector = watched([*QUIET, *[1e3] * 5])  # five slices that add all they can
    assert detector.outcry(2.0)
    assert not detector.outcry(4.0)
