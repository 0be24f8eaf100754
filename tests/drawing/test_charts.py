"""Figures for notebooks: what is drawn is what was given."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from onlinegcp.drawing.charts import plot_activations, plot_components, plot_drift, plot_losses
from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor


def test_components_come_strongest_first_as_bars_and_lines():
    a = np.array([[1.0, 0.0], [0.0, 3.0], [2.0, 1.0]])
    model = KTensor([1.0, 5.0], [a, np.ones((24, 2))], labels=[("x", "y", "z"), None])
    figure = plot_components(model, modes=["dest", "hour"], top=2)
    bars, line = figure.data[0], figure.data[1]
    assert (bars.type, line.type) == ("bar", "scatter")
    assert list(bars.y) == ["y", "z"]
    assert list(bars.x) == [3.0, 1.0]
    assert [t.text for t in figure.layout.annotations[:2]] == ["dest", "hour"]
    assert figure.layout.annotations[2].text.startswith("2 · ")


@pytest.mark.parametrize("rank", [1, 13])
@pytest.mark.parametrize("shape", [(1,), (3, 1, 5)])
def test_any_model_can_be_drawn(rank, shape):
    rng = np.random.default_rng(0)
    model = KTensor(np.zeros(rank), [rng.normal(size=(n, rank)) for n in shape])
    figure = plot_components(model)
    assert len(figure.data) == min(rank, 12) * len(shape)
    assert figure.to_json()


def test_activations_losses_and_drift_carry_their_numbers():
    weights = np.array([[1.0, 2.0], [3.0, 4.0]])
    figure = plot_activations(weights, ["2013-01-01", "2013-01-02"], names=["a", "b"])
    assert [trace.name for trace in figure.data] == ["b", "a"]
    np.testing.assert_array_equal(figure.data[0].y, [2.0, 4.0])
    figure = plot_losses([np.nan, 2.0], [1.0, 1.5], final=[1.2, 1.4], warm=1)
    assert [trace.name for trace in figure.data] == ["global", "local", "prequential"]
    np.testing.assert_array_equal(figure.data[0].y, [1.2, 1.4])
    assert len(plot_losses([np.nan, 2.0]).data) == 1
    assert figure.layout.annotations[0].text == "warm start ends"
    np.testing.assert_array_equal(plot_drift(weights).data[0].z, weights.T)


def test_hours_days_and_dates_are_drawn_in_their_order():
    labels = [["Sun", "Mon", "Wed"], ["17", "5", "09"], ["2013-02-01", "2013-01-15", "2014-01-01"]]
    factors = [np.array([[1.0], [2.0], [3.0]])] * 3
    figure = plot_components(KTensor(None, factors, labels=labels), modes=["day", "hour", "when"])
    assert list(figure.data[0].x) == ["Mon", "Wed", "Sun"]
    assert list(figure.data[1].x) == ["5", "09", "17"]
    assert list(figure.data[2].x) == ["2013-01-15", "2013-02-01", "2014-01-01"]
    np.testing.assert_array_equal(figure.data[1].y, [2.0, 3.0, 1.0])


def test_what_does_not_fit_is_named():
    with pytest.raises(DataError, match="2 of them, but has 1"):
        plot_activations(np.ones((2, 2)), ["2013-01-01"])
    with pytest.raises(DataError, match="has 1 dimensions"):
        plot_drift([1.0, 2.0])
    with pytest.raises(DataError, match="1 of them, but has 2"):
        plot_components(KTensor(None, [np.ones((2, 1))]), modes=["a", "b"])


def test_reports_need_neither_models_nor_numba_nor_plotly():
    code = (
        "import sys, onlinegcp.report, onlinegcp.dashboard, onlinegcp.drawing.charts\n"
        "loaded = {name.split('.')[0] for name in sys.modules}\n"
        "print(loaded & {'numba', 'sklearn', 'plotly', 'starlette', 'uvicorn', 'polars'})\n"
        "models = ('onlinegcp.streaming', 'onlinegcp.solvers', 'onlinegcp.kernels')\n"
        "print([name for name in sys.modules if name.startswith(models)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["set()", "[]"]


def test_models_draw_themselves():
    from onlinegcp.slices import Slice
    from onlinegcp.streaming import OnlineCP

    rng = np.random.default_rng(0)
    slices = [Slice.dense(rng.random((4, 3))) for _ in range(6)]
    model = OnlineCP(2, init_slices=4).fit(slices)
    labels = [["a", "b", "c", "d"], ["x", "y", "z"]]
    shown = {str(v) for trace in model.plot_components(labels).data for v in (trace.y or ())}
    assert shown & {"a", "b", "c", "d"}
    strengths = model.plot_activations(slices).data
    assert len(strengths) == 2
    assert len(strengths[0].y) == 6
