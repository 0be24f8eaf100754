"""No sentence contradicts itself or the numbers: random streams with random things planted."""

from __future__ import annotations

import re

import numpy as np
import pytest

from onlinegcp.anomaly import AnomalyTracker, score_slice
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineGCP

MODES = ("origin", "dest", "kind")
ROW = re.compile(
    r"(?P<label>\w+) (?P<change>[+-][\d,]+ %|x [\d.,]+) "
    r"\((?P<seen>[\d.,]+), usually (?P<low>[\d.,]+) to (?P<high>[\d.,]+)\)"
)


class Events:
    """Days of events with three labels each; members come and go where `turnover` is given."""

    def __init__(self, rng, turnover=0.0):
        self.rng, self.turnover = rng, turnover
        self.shares = [rng.dirichlet(np.full(n, 1.0)) for n in (int(rng.integers(4, 40)), 9, 3)]
        self.total = float(rng.choice([80.0, 400.0, 2000.0]))
        self.size = float(rng.choice([20.0, 400.0, 1e6]))  # of a negative binomial day
        self.labels = [[f"{mode}{i}" for i in range(len(s))] for mode, s in
                       zip("abc", self.shares, strict=True)]  # fmt: skip
        self.next = len(self.shares[0])

    def draw(self):
        day = self.rng.poisson(self.total * self.rng.gamma(self.size, 1.0 / self.size))
        index = np.stack([self.rng.choice(len(s), day, p=s) for s in self.shares], axis=1)
        if self.turnover:  # a part of the events comes from members never seen before
            new = np.flatnonzero(self.rng.random(day) < self.turnover)
            index[new, 0] = self.next + self.rng.integers(0, max(1, len(new) // 2), len(new))
            self.next = max(self.next, int(index[:, 0].max(initial=0)) + 1)
        return index

    def slice(self, index):
        names = self.labels[0]
        names += [f"a{i}" for i in range(len(names), max(self.next, index[:, 0].max() + 1))]
        return Slice(index, np.ones(len(index)), tuple(map(len, self.labels)))

    def plant(self, index):
        """Something odd of a random kind."""
        rng, kind = self.rng, int(self.rng.integers(0, 8))
        k = int(rng.integers(0, 3))
        row = int(rng.choice(index[:, k]))
        mine = index[:, k] == row
        if kind == 0:  # most of a row is gone
            return index[~mine | (rng.random(len(index)) < 0.2)]
        if kind == 1:  # a row explodes
            return np.concatenate([index, *[index[mine]] * int(rng.integers(2, 8))])
        if kind == 2:  # a row goes to another
            index = index.copy()
            index[mine, k] = int(rng.integers(0, len(self.shares[k])))
            return index
        if kind == 3:  # one label never seen
            new = index[rng.random(len(index)) < rng.choice([0.1, 0.5])].copy()
            new[:, 0] = self.next
            return np.concatenate([index, new])
        if kind == 4:  # many labels never seen
            new = index[rng.random(len(index)) < 0.3].copy()
            new[:, 0] = self.next + np.arange(len(new))
            return np.concatenate([index, new])
        if kind == 5:  # more or less of everything
            return index[rng.integers(0, len(index), int(len(index) * rng.choice([0.3, 2.5])))]
        if kind == 6:  # a mode mixed anew, and one row of another up
            index = index.copy()
            index[:, 1] = rng.choice(9, len(index), p=rng.dirichlet(np.ones(9)))
            return np.concatenate([index, index[mine], index[mine]])
        index = index.copy()  # one row has all its events in one row of another mode
        index[mine, (k + 1) % 3] = 0
        return index


def number(text):
    return float(text.replace(",", ""))


def check(anomaly):
    """What may be said of a slice, by its record."""
    said, told = anomaly.sentence, anomaly.to_json()
    head, _, rest = said.partition(". ")
    if "as usual" in head:
        assert told["expected_low"] <= told["total"] <= told["expected_high"], said
    if not anomaly.flagged:
        assert not rest, said
        return
    assert rest, f"flagged for nothing: {said}"
    named = list(ROW.finditer(rest))
    labels = [match["label"] for match in named] + re.findall(
        r"(\w+) (?:is new|[\d,]+ \(usually next to none)", rest
    )
    assert len(labels) == len(set(labels)), said
    for match in named:
        seen, low, high = (number(match[name]) for name in ("seen", "low", "high"))
        fell = match["change"].startswith("-")
        assert (seen < low) == fell, said
        assert (seen > high) == (not fell), said
    more = sum(map(int, re.findall(r"(\d+) more\b(?! \()", rest)))
    odd = [row for rows in told["modes"] for row in rows]
    odd = [row for row in odd if row["new"] or not row["low"] <= row["observed"] <= row["high"]]
    if "the rest as usual" in rest:
        assert len(odd) + told["more_rows"] <= len(labels) + more, said
        assert anomaly.family not in ("many", "misfit"), said
        for cell in told["cells"]:
            names = {label for label in cell["labels"] if label}
            assert names & {row["label"] for rows in told["modes"] for row in rows} or all(
                re.search(rf"\b{name}\b", rest) or "more" in rest for name in names
            ), said
    if "the rest" in rest and anomaly.counted:
        balance(anomaly)


def balance(anomaly):
    """Rows that are odd and the rest must add up to the total, in a mode that has odd rows."""
    change = 0.0 if "the rest as usual" in anomaly.sentence else anomaly.rest_change
    slack = 0.5 * (anomaly.expected_high - anomaly.expected_low)
    missed = []
    for seen, odd in zip(anomaly.verdict.rows, anomaly.odd_rows, strict=True):
        if len(odd):
            known = np.setdiff1d(np.arange(len(seen.observed)), odd)
            others = float(seen.observed[known].sum())
            usual = float(seen.forecast[known].sum()) / max(float(seen.forecast.sum()), 1e-9)
            expected = (1.0 + change) * anomaly.expected_total * usual
            room = 4.0 * np.sqrt(others + expected + 1.0) + 0.15 * expected + slack * usual
            missed.append(abs(others - expected) / room)
    assert min(missed) <= 1.0, (missed, anomaly.sentence)


@pytest.mark.parametrize("seed", range(12))
def test_sentences_about_events_never_contradict_themselves(seed):
    rng = np.random.default_rng(seed)
    world = Events(rng, turnover=(0.0, 0.0, 0.15)[seed % 3])
    tracker, flagged = AnomalyTracker(1), 0
    for t in range(60):
        index = world.draw()
        if t > 20 and rng.random() < 0.3:
            odd = score_slice(None, world.slice(world.plant(index)), world.labels,
                              history=tracker, modes=MODES)  # fmt: skip
            flagged += odd.flagged
            check(odd)
        usual = score_slice(None, world.slice(index), world.labels, history=tracker, modes=MODES)
        check(usual)
        tracker.update(usual)
    assert flagged


@pytest.mark.parametrize("seed", range(4))
def test_sentences_about_measurements_never_contradict_themselves(seed):
    rng = np.random.default_rng(seed)
    base, model = rng.normal(20.0, 5.0, (12, 6)), OnlineGCP(1, "gaussian", init_slices=5)
    labels = [[f"{mode}{i}" for i in range(n)] for mode, n in zip("ab", base.shape, strict=True)]
    tracker, flagged = AnomalyTracker(1), 0
    for t in range(50):
        x = base + rng.normal(0.0, 1.0, base.shape)
        if t > 15:
            odd, k = x.copy(), int(rng.integers(0, 4))
            odd[k] += rng.choice([-6.0, 6.0])
            odd[k + 1 :] *= rng.choice([1.0, 1.0, 0.9, 1.4], (len(odd) - k - 1, 1))
            found = score_slice(model, Slice.dense(odd), labels, history=tracker, modes=MODES)
            flagged += found.flagged
            check(found)
        if t > 5:
            tracker.update(score_slice(model, Slice.dense(x), history=tracker))
        model.partial_fit(Slice.dense(x))
    assert flagged


@pytest.mark.parametrize("seed", range(20))
def test_one_label_that_falls_or_grows_is_named_first_and_no_other_of_its_mode(seed):
    rng = np.random.default_rng([seed, 5])
    n = (2, 3, 4, 8, 30)[seed % 5]
    rates = np.outer(rng.uniform(40.0, 200.0, n), rng.dirichlet(np.full(6, 5.0)))
    labels = [[f"a{i}" for i in range(n)], [f"b{i}" for i in range(6)]]
    tracker = AnomalyTracker(1)
    for _ in range(60):
        tracker.learn(tracker.judge(Slice.dense(rng.poisson(rates).astype(float)), counted=True))
    flagged = 0
    for row in range(min(n, 4)):
        for change in (0.05, 3.0):
            odd = rates.copy()
            odd[row] *= change
            x = Slice.dense(rng.poisson(odd).astype(float))
            found = score_slice(None, x, labels, history=tracker, modes=MODES)
            seen, usual = x.to_dense().sum(axis=1), rates.sum(axis=1)
            off = np.flatnonzero(np.abs(seen - usual) > 2.0 * np.sqrt(usual))  # chance, too
            said = found.sentence
            named = re.findall(r"\b(a\d+) (?:[+-]|x )", said)
            assert found.p < 0.05, said
            if found.flagged:
                assert named[:1] == [f"a{row}"], said
                assert set(named) <= {f"a{i}" for i in off}, said
                assert f"a{row} with" not in said, said
                flagged += 1
    assert flagged >= 2 * min(n, 4) - 1


def test_an_outage_that_goes_on_is_told_without_a_rise_of_the_rest():
    """The total is expected to be low long before the row is; an ordinary slice is not."""
    rng = np.random.default_rng(0)
    mean = np.outer([3000, 6000, 4000, 3000, 2400, 1800], [0.4, 0.3, 0.2, 0.1])
    model, tracker = OnlineGCP(1, "poisson", init_slices=5), AnomalyTracker(period=24)
    told = []
    for t in range(262):
        rates = mean * (1.0 + 0.8 * np.sin(2.0 * np.pi * t / 24))
        rates[1] *= 0.02 if t >= 250 else 1.0
        x = Slice.dense(rng.poisson(rates).astype(float), time=t)
        if t < 250:
            tracker.learn(tracker.judge(x, counted=True))
        else:
            anomaly = score_slice(model, x, [list("abcdef"), list("wxyz")], history=tracker)
            tracker.update(anomaly)
            told.append(anomaly)
        if t >= 240:
            model.partial_fit(x)
    named = [anomaly for anomaly in told if any(anomaly.modes)]
    assert len(named) >= 8
    # By then the total is no longer a surprise, which is what the rest was compared with.
    assert min(anomaly.expected_total / anomaly.total for anomaly in named) < 1.1
    assert all(abs(anomaly.rest_change) < 0.2 for anomaly in named)
    assert all("the rest as usual" in anomaly.sentence for anomaly in named)


@pytest.mark.parametrize("seed", range(6))
def test_a_place_that_is_closed_at_both_ends_leaves_the_rest_as_usual(seed):
    """It lacks departures and arrivals; what is left of either still lacks the other."""
    rng = np.random.default_rng([seed, 9])
    share = rng.dirichlet(np.full(9, 5.0))
    rates, place = 2000.0 * np.outer(share, share), int(np.argmax(share))
    labels = [[f"{mode}{i}" for i in range(9)] for mode in "ab"]
    tracker = AnomalyTracker(1)
    for _ in range(60):
        tracker.learn(tracker.judge(Slice.dense(rng.poisson(rates).astype(float)), counted=True))
    closed = rates.copy()
    closed[place], closed[:, place] = 0.0, 0.0
    x = Slice.dense(rng.poisson(closed).astype(float))
    found = score_slice(None, x, labels, history=tracker, modes=MODES)
    assert f"a{place} -100 %" in found.sentence
    assert f"b{place} -100 %" in found.sentence
    kept = rates.sum() * (1.0 - share[place]) ** 2
    chance = 3.0 / np.sqrt(kept)
    assert abs(found.rest_change - (x.total / kept - 1.0)) < chance, found.sentence


@pytest.mark.parametrize("seed", range(6))
def test_a_row_that_fell_less_than_all_others_is_not_what_happened(seed):
    """All fall by four tenths but one, by a tenth: odd for that, but no part of the fall."""
    rng = np.random.default_rng([seed, 12])
    share = rng.dirichlet(np.full(8, 20.0))
    rates, place = 6000.0 * np.outer(share, share), int(np.argmax(share))
    labels = [[f"{mode}{i}" for i in range(8)] for mode in "ab"]
    tracker = AnomalyTracker(1)
    for _ in range(60):
        tracker.learn(tracker.judge(Slice.dense(rng.poisson(rates).astype(float)), counted=True))
    fallen = 0.6 * rates
    fallen[place] = 0.9 * rates[place]
    x = Slice.dense(rng.poisson(fallen).astype(float))
    found = score_slice(None, x, labels, history=tracker, modes=MODES)
    assert found.flagged
    assert place in found.odd_rows[0], "it is odd"
    (told,) = (row for row in found.modes[0] if row["label"] == f"a{place}")
    assert told["milder"]
    assert f"a{place} " not in found.sentence


def labels_that_come_and_go(n, seed):
    rng = np.random.default_rng(seed)
    born, size = np.sort(rng.integers(-30, n, 300)), rng.lognormal(0.0, 1.0, 300)
    gone = born + rng.geometric(1.0 / 30.0, 300)
    for t in range(n):
        there = np.flatnonzero(born <= t)
        rate = 4.0 * size[there] * (t < gone[there])
        yield Slice.dense(rng.poisson(np.outer(rate, np.ones(5))).astype(float))


def test_rows_and_rest_add_up_where_labels_come_and_go():
    """What is left without the odd rows is compared with what is left of the forecast."""
    told = wrong = 0
    for seed in range(4):
        tracker = AnomalyTracker(1)
        for x in labels_that_come_and_go(300, seed):
            found = score_slice(None, x, history=tracker)
            tracker.update(found)
            rows = [row for mode in found.modes for row in mode]
            if not found.flagged or found.cells or sum(map(bool, found.modes)) != 1:
                continue
            left = found.total - sum(row["observed"] for row in rows)
            usual = found.expected_total - sum(row["expected"] for row in rows if not row["new"])
            told += 1
            off = abs(left / usual - 1.0 - found.rest_change) > 0.1
            wrong += not found.rest_usual and off
    assert told > 5
    assert wrong <= 1
