"""SeekAndDestroy: the authors' labels, and births and deaths that were planted."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.streaming import SeekAndDestroy
from onlinegcp.streaming.seek_and_destroy import label_components
from reference_outputs import stored

LABELS = ("new", "overlap_new", "overlap_old", "missing")


def batch_model(b):
    theirs = stored("seekanddestroy")
    return KTensor(theirs[f"b{b}_lambda"].ravel(), [theirs[f"b{b}_U{k}"] for k in (1, 2, 3)])


@pytest.mark.parametrize("match", ["first", "all"])
def test_the_authors_labels_for_their_models_of_the_batches(match):
    theirs = stored("seekanddestroy")
    known = [theirs["A1"], theirs["B1"]]
    for b in (2, 3, 4):
        *factors, _ = batch_model(b).factors
        labels = label_components(known, factors, match=match)
        for name in LABELS:
            expected = theirs[f"b{b}_{name}"].ravel().astype(int) - 1
            assert getattr(labels, name) == tuple(expected)
        known = [np.hstack([a, f[:, labels.new]]) for a, f in zip(known, factors, strict=True)]
        assert known[0].shape[1] == theirs[f"b{b}_running_rank"].item()
    for a, name in zip(known, "AB", strict=True):
        expected = theirs[f"final_{name}"]
        np.testing.assert_allclose(a / np.linalg.norm(a, axis=0), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("match", ["first", "all"])
def test_the_authors_labels_from_the_data_alone(match):
    """Ranks by AutoTen and models by CP-ALS are found here; their order in a batch is ours."""
    theirs = stored("seekanddestroy")
    first = KTensor(None, [theirs["A1"], theirs["B1"], theirs["C1"]])
    model = SeekAndDestroy(2, batch=6, match=match)
    model.start_from(first, [first.full()[..., t] for t in range(6)])
    for b in (2, 3, 4):
        model.partial_fit([batch_model(b).full()[..., t] for t in range(6)])
        labels = model.labels_
        assert len(model.weights_) == theirs[f"b{b}_running_rank"].item()
        assert len(labels.new) == theirs[f"b{b}_new"].size
        assert set(labels.overlap_old) == set(theirs[f"b{b}_overlap_old"].ravel() - 1)
        assert labels.missing == tuple(theirs[f"b{b}_missing"].ravel().astype(int) - 1)
        assert model.last_.births == len(labels.new)
        scale = np.sort(np.linalg.norm(model.batch_weights_, axis=0))
        np.testing.assert_allclose(scale, np.sort(theirs[f"b{b}_rho"].ravel()), rtol=1e-3)
    score = KTensor(None, model.factors_).score(
        KTensor(None, [theirs["final_A"], theirs["final_B"]]), weight_penalty=False
    )
    assert score.score > 0.99


def test_equal_ranks_report_what_is_missing():
    """Where the authors' code lists the wrong ones."""
    eye = np.eye(6)
    labels = label_components([eye[:, :2]] * 2, [eye[:, 1:3]] * 2)
    assert (labels.new, labels.overlap_new, labels.overlap_old) == ((1,), (0,), (1,))
    assert labels.missing == (0,)


def test_signs_are_carried_into_the_weights():
    eye = np.eye(6)[:, :2]
    labels = label_components([eye, eye], [-eye, eye])
    assert labels.overlap_old == (0, 1)
    assert labels.signs == (-1.0, -1.0)
    assert label_components([eye, eye], [-eye, eye], match="first").new == (0, 1)


@pytest.mark.slow
def test_the_longest_missing_are_given_up():
    rng = np.random.default_rng(0)
    eye = np.eye(12)
    model = SeekAndDestroy(2, batch=4, batch_rank=2, max_rank=4, init_slices=4)
    for t in range(20):
        pair = [2 * (t // 4), 2 * (t // 4) + 1]
        x = eye[:, pair] * (0.5 + rng.random(2)) @ eye[:, pair].T
        model.partial_fit(Slice.dense(x))
        assert len(model.weights_) <= 4
    assert model.last_.deaths == 2
    kept = np.flatnonzero(np.abs(model.factors_[0]).sum(axis=1) > 1e-6)
    assert set(kept) == {6, 7, 8, 9}


def test_a_batch_that_does_not_fit_is_only_weighed():
    rng = np.random.default_rng(0)
    model = SeekAndDestroy(1, batch=3, batch_rank=1, init_slices=3, min_fit=0.9)
    for _ in range(3):
        model.partial_fit(Slice.dense(np.outer(np.arange(1, 6), np.ones(4)) * rng.random()))
    before = model.factors_
    model.partial_fit([Slice.dense(rng.normal(size=(5, 4))) for _ in range(3)])
    assert model.labels_ is None
    np.testing.assert_array_equal(model.factors_[0], before[0])


@pytest.mark.parametrize(
    ("options", "word"),
    [({"batch_rank": 0}, "batch_rank"), ({"threshold": 0}, "threshold"), ({"match": "x"}, "match")],
)
def test_options_out_of_range_are_refused(options, word):
    with pytest.raises(DataError, match=word):
        SeekAndDestroy(2, **options).partial_fit(Slice.dense(np.ones((3, 4))))
