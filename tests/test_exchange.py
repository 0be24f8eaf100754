"""Exchange: files that survive or are refused, and the real packages at the other end."""

from __future__ import annotations

import numpy as np
import polars
import pytest

from onlinegcp.errors import DataError, StateError
from onlinegcp.ktensor import KTensor
from onlinegcp.sources import save_npz
from onlinegcp.storage import archive
from onlinegcp.storage.archive import write_archive

LABELS = [("x", "y ü", ""), None, ("p\0", "q")]


def random_ktensor(shape=(3, 4, 2), rank=2, seed=0, labels=None):
    rng = np.random.default_rng(seed)
    return KTensor(rng.random(rank), [rng.random((n, rank)) for n in shape], labels)


MODELS = {
    "plain": random_ktensor(),
    "labelled": random_ktensor(labels=LABELS),
    "one mode, rank 1": random_ktensor((5,), 1),
    "a mode of length 1": random_ktensor((1, 7), 3, labels=[("only",), None]),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def same(a: KTensor, b: KTensor) -> bool:
    return a.isclose(b, rtol=0, atol=0)


@every_model
def test_a_saved_model_loads_bit_for_bit(model, tmp_path):
    path = tmp_path / "model.anything"
    model.save(path)
    assert same(KTensor.load(path), model)
    assert [p.name for p in tmp_path.iterdir()] == ["model.anything"]
    model.save(str(path))
    assert same(KTensor.load(str(path)), model)


def test_a_failed_save_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "model.npz"
    MODELS["plain"].save(path)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(archive, "_npz", fail)
    with pytest.raises(StateError, match="disk full"):
        MODELS["labelled"].save(path)
    assert same(KTensor.load(path), MODELS["plain"])
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_cut_short_anywhere_is_refused(tmp_path):
    path = tmp_path / "model.npz"
    MODELS["labelled"].save(path)
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 17), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(StateError, match=r"model\.npz.*earlier copy"):
            KTensor.load(path)


def test_a_file_with_a_wrong_byte_is_refused_or_unharmed(tmp_path):
    model = MODELS["labelled"]
    path = tmp_path / "model.npz"
    model.save(path)
    whole = path.read_bytes()
    refused = 0
    for place in range(0, len(whole), 13):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        # A few bytes (times, permissions) carry nothing: then the model must be the same.
        try:
            assert same(KTensor.load(path), model)
        except StateError:
            refused += 1
    assert refused > 0.7 * len(whole) / 13


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_modes": 4}, "factor_3"),
        ({"n_modes": "three"}, "contradicts itself"),
        ({"n_modes": 0}, "at least one factor"),
        ({"labels": [["a"], None, None]}, r"labels\[0\]"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(tmp_path, change, message):
    model = MODELS["plain"]
    path = tmp_path / "model.npz"
    arrays = {f"factor_{k}": a for k, a in enumerate(model.factors)}
    record = {"n_modes": 3, "labels": None} | change
    write_archive(path, "ktensor", {"weights": model.weights, **arrays}, record)
    with pytest.raises(StateError, match=message):
        KTensor.load(path)


def test_other_kinds_of_file_are_refused(tmp_path):
    path = tmp_path / "array.npy"
    np.save(path, np.ones(3))
    with pytest.raises(StateError, match=r"array\.npy"):
        KTensor.load(path)
    np.savez(tmp_path / "objects.npz", onlinegcp_meta=np.array([{}], dtype=object))
    with pytest.raises(StateError, match="allow_pickle"):
        KTensor.load(tmp_path / "objects.npz")
    save_npz(tmp_path / "slice.npz", np.eye(2))
    with pytest.raises(StateError, match=r"saved ktensor was needed, but .* holds a slice"):
        KTensor.load(tmp_path / "slice.npz")
    with pytest.raises(StateError, match="no such file"):
        KTensor.load(tmp_path / "nothing.npz")


@every_model
def test_tensorly_gets_the_same_tensor_and_gives_it_back(model):
    tensorly = pytest.importorskip("tensorly")
    cp = model.to_tensorly()
    np.testing.assert_allclose(tensorly.cp_to_tensor(cp), model.full(), rtol=1e-12)
    assert same(KTensor.from_tensorly(cp), KTensor(*model))
    cp.factors[0][:] = 0  # theirs is a copy that may be changed
    assert model.factors[0].any()


def test_tensorly_functions_take_a_ktensor_as_it_is():
    tensorly = pytest.importorskip("tensorly")
    model = MODELS["labelled"]
    np.testing.assert_allclose(tensorly.cp_to_tensor(model), model.full(), rtol=1e-12)
    assert tensorly.cp_norm(model) == pytest.approx(model.norm())
    np.testing.assert_allclose(
        tensorly.cp_to_unfolded(model, 1), tensorly.unfold(model.full(), 1), rtol=1e-12
    )
    weights, factors = model
    assert weights is model.weights
    assert len(factors) == 3
    assert len(model) == 2
    assert model[0] is model.weights


def test_tuples_without_weights_are_taken():
    factors = MODELS["plain"].factors
    np.testing.assert_array_equal(KTensor.from_tensorly((None, factors)).weights, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["itself", "tensorly", "labelled"])
def test_tlviz_draws_the_components(form):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    visualisation = pytest.importorskip("tlviz.visualisation")
    model = random_ktensor((3, 4, 2), 2, labels=[("a", "b", "c"), None, ("p", "q")])
    given = {
        "itself": lambda: model,
        "tensorly": model.to_tensorly,
        "labelled": lambda: model.to_tensorly(labelled=True),
    }[form]()
    figure, axes = visualisation.components_plot(given)
    assert len(axes) == 3
    drawn = axes[0].get_lines()[1].get_ydata()
    expected = model.factors[0][:, 1] / np.linalg.norm(model.factors[0][:, 1])
    np.testing.assert_allclose(drawn, expected, rtol=1e-12)
    matplotlib.pyplot.close(figure)


@pytest.mark.slow
def test_tlviz_scores_a_ktensor_against_another():
    factor_tools = pytest.importorskip("tlviz.factor_tools")
    model, other = random_ktensor((5, 4, 3), 3), random_ktensor((5, 4, 3), 3, seed=1)
    theirs = factor_tools.factor_match_score(model, other, consider_weights=False)
    assert model.score(other, weight_penalty=False).score == pytest.approx(theirs)


def test_labelled_frames_come_back_with_their_labels():
    pytest.importorskip("pandas")
    model = MODELS["labelled"]
    assert same(KTensor.from_tensorly(model.to_tensorly(labelled=True)), model)


@every_model
def test_pyttb_gets_the_same_tensor_and_gives_it_back(model):
    pytest.importorskip("pyttb")
    theirs = model.to_pyttb()
    if model.ndim > 1:  # pyttb 1.8.6 cannot multiply out a single mode
        np.testing.assert_allclose(theirs.full().double(), model.full(), rtol=1e-12)
    assert theirs.norm() == pytest.approx(model.norm())
    assert theirs.score(model.to_pyttb())[0] == pytest.approx(1.0)
    assert same(KTensor.from_pyttb(theirs), KTensor(*model))


@every_model
def test_xarray_round_trip(model):
    xarray = pytest.importorskip("xarray")
    dataset = model.to_xarray()
    assert same(KTensor.from_xarray(dataset), model)
    product = dataset["weights"]
    for k in range(model.ndim):
        product = product * dataset[f"factor_mode_{k}"]
    total = product.sum("component").transpose(*(f"mode_{k}" for k in range(model.ndim)))
    np.testing.assert_allclose(total.values, model.full(), rtol=1e-12)
    assert isinstance(dataset, xarray.Dataset)


def test_xarray_dimensions_can_be_named_and_selected_by_label():
    pytest.importorskip("xarray")
    model = random_ktensor(labels=[("a", "b", "c"), None, None])
    dataset = model.to_xarray(["letter", "word", "day"])
    found = dataset["factor_letter"].sel(letter="b").values
    np.testing.assert_array_equal(found, model.factors[0][1])
    again = KTensor.from_xarray(dataset)
    assert again.mode_names == ("letter", "word", "day")
    assert same(KTensor(again.weights, again.factors, again.labels), model)
    for names in (["a", "b"], ["a", "a", "b"], ["a", "b", "component"]):
        with pytest.raises(DataError, match="names needs 3 different"):
            model.to_xarray(names)


@every_model
@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_data_frame_round_trip_in_any_row_order(model, library):
    pytest.importorskip(library)
    frame = model.to_dataframe(library)
    assert type(frame).__module__.startswith(library)
    assert len(frame) == sum(model.shape) * model.rank
    order = np.random.default_rng(0).permutation(len(frame))
    shuffled = frame[order] if library == "polars" else frame.iloc[order]
    assert same(KTensor.from_dataframe(shuffled), model)


def test_tables_of_older_versions_count_components_from_0():
    model = random_ktensor()
    older = model.to_dataframe().with_columns(polars.col("component") - 1)
    assert same(KTensor.from_dataframe(older), model)


def test_a_data_frame_is_tidy():
    model = random_ktensor(labels=[("a", "b", "c"), None, None])
    frame = model.to_dataframe()
    row = frame.filter(polars.col("label") == "b", polars.col("component") == 2)
    assert row.row(0, named=True) == {
        "mode": 0,
        "mode_name": None,
        "index": 1,
        "label": "b",
        "component": 2,
        "weight": model.weights[1],
        "value": model.factors[0][1, 1],
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop("weight"), "weight"),
        (lambda f: f[1:], r"factors\[0\].*entry \(0, 0\) is nan"),
        (lambda f: f.with_columns(polars.col("mode").cast(polars.String)), "'mode'.*whole"),
        (lambda f: f.with_columns(index=-polars.col("index")), "'index'.*whole"),
        (lambda f: f.clear(), "at least one factor"),
    ],
)
def test_a_damaged_data_frame_is_refused(change, message):
    with pytest.raises(DataError, match=message):
        KTensor.from_dataframe(change(random_ktensor().to_dataframe()))


def test_an_unknown_library_is_refused():
    with pytest.raises(DataError, match="'dask'"):
        random_ktensor().to_dataframe("dask")


def test_names_of_modes_travel(tmp_path):
    plain = random_ktensor(labels=[("a", "b", "c"), None, None])
    model = KTensor(plain.weights, plain.factors, plain.labels, ("letter", "word", "day"))
    model.save(tmp_path / "model")
    assert KTensor.load(tmp_path / "model").isclose(model)
    assert not KTensor.load(tmp_path / "model").isclose(plain)
    frame = model.to_dataframe()
    assert frame.filter(polars.col("mode") == 2)["mode_name"].unique().to_list() == ["day"]
    assert KTensor.from_dataframe(frame).mode_names == model.mode_names
    assert KTensor.from_dataframe(frame.drop("mode_name")).mode_names is None
    unnamed = model.to_dataframe("pandas").assign(mode_name=float("nan"))  # as a CSV file gives it
    assert KTensor.from_dataframe(unnamed).mode_names is None
    assert KTensor.from_xarray(model.to_xarray()).mode_names == model.mode_names
    assert model.components().modes == model.mode_names
    assert model.permute([2, 0, 1]).mode_names == ("day", "letter", "word")
    assert model.normalize().arrange([1, 0]).mode_names == model.mode_names
    for names in (["a", "b"], ["a", "a", "b"], ["a", "b", 3], "abc"):
        with pytest.raises(DataError, match="mode_names needs 3 different names"):
            KTensor(plain.weights, plain.factors, mode_names=names)
