"""The same views as plotly figures, for notebooks: components, activations, losses and drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from onlinegcp.drawing.profiles import Kind, guess_kind, natural_order, scale
from onlinegcp.drawing.text import number, percent
from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Told apart by colour-blind readers and on white; the report uses the same.
COLORS = (
    *("#0b6aa8", "#c8550a", "#00795a", "#a8458a", "#806600", "#5146a5"),
    *("#00808f", "#b3261e", "#4d7a00", "#8a5a3c", "#d0267a", "#5e6770"),
)
_INK, _SOFT, _LINE = "#16202a", "#55606b", "#e3e0d8"


def plot_components(
    model: KTensor,
    *,
    modes: Sequence[str] | None = None,
    top: int = 8,
    most: int = 12,
) -> Figure:
    """One row per component, strongest first, and one column per mode.

    Modes with an order (hours, weekdays, months, ranges, dates, rows without names) are drawn as
    lines, all others as bars of their strongest labels.

    Parameters
    ----------
    model
        Weights and factors, with labels if there are any.
    modes
        Names of the modes; those of the model by default.
    top
        Bars per category mode.
    most
        Components shown.
    """
    from plotly.subplots import make_subplots

    names = _names(model.mode_names if modes is None else modes, model.ndim)
    strength = np.abs(model.weights) * scale(model.factors)
    order = np.argsort(-strength, kind="stable")[:most]
    share = strength / (strength.sum() or 1.0)
    figure = make_subplots(
        rows=len(order),
        cols=model.ndim,
        column_titles=names,
        row_titles=[f"{r + 1} · {percent(float(share[r]))}" for r in order],
        horizontal_spacing=0.5 / (4 * model.ndim),
        vertical_spacing=min(0.3 / len(order), 0.08),
    )
    for row, r in enumerate(order, start=1):
        color = COLORS[r % len(COLORS)]
        for k, factor in enumerate(model.factors):
            trace = _column(model, k, names[k], factor[:, r], color, top)
            figure.add_trace(trace, row=row, col=k + 1)
            if trace.type == "bar":
                figure.update_yaxes(autorange="reversed", row=row, col=k + 1)
    _style(figure, height=90 + 150 * len(order))
    figure.update_layout(showlegend=False)
    return figure


def plot_activations(
    weights: ArrayLike, times: Sequence[Any] | None = None, *, names: Sequence[str] | None = None
) -> Figure:
    """How strong each component is in each slice.

    Parameters
    ----------
    weights
        (slices, rank).
    times
        Time of each slice; numbers from 1 without.
    names
        Name of each component.
    """
    from plotly.graph_objects import Figure, Scatter

    values = _matrix(weights, "weights")
    axis = _axis(times, len(values))
    figure = Figure()
    for place, r in enumerate(np.argsort(-np.nansum(np.abs(values), axis=0), kind="stable")):
        figure.add_trace(
            Scatter(
                x=axis,
                y=values[:, r],
                mode="lines",
                name=names[r] if names else f"component {r + 1}",
                line={"color": COLORS[r % len(COLORS)], "width": 1.8},
                # The strongest few at first; a click in the legend brings the others.
                visible=True if place < 6 else "legendonly",
            )
        )
    _style(figure, height=380)
    figure.update_yaxes(title="weight", rangemode="tozero")
    return figure


def plot_losses(
    prequential: ArrayLike,
    local: ArrayLike | None = None,
    times: Sequence[Any] | None = None,
    *,
    final: ArrayLike | None = None,
    warm: int = 0,
) -> Figure:
    """Loss of each slice before and after it was learned, and under the final factors.

    Parameters
    ----------
    prequential
        Loss before learning, one per slice; NaN for slices of the warm start.
    local
        Loss after learning.
    times
        Time of each slice; numbers from 1 without.
    final
        Loss under the final factors, the global loss.
    warm
        Slices of the warm start, which are marked.
    """
    from plotly.graph_objects import Figure, Scatter

    before = np.asarray(prequential, dtype=np.float64)
    axis = _axis(times, len(before))
    figure = Figure()
    others = (("global", final, COLORS[2], "dash"), ("local", local, COLORS[1], "dot"))
    for name, losses, color, dash in others:
        if losses is not None:
            values = np.asarray(losses, dtype=np.float64)
            line = {"color": color, "width": 1.4, "dash": dash}
            figure.add_trace(Scatter(x=axis, y=values, mode="lines", name=name, line=line))
    line = {"color": COLORS[0], "width": 1.8}
    figure.add_trace(Scatter(x=axis, y=before, mode="lines", name="prequential", line=line))
    if 0 < warm <= len(axis):
        figure.add_vrect(x0=axis[0], x1=axis[warm - 1], fillcolor="#f1efe9", line_width=0)
        figure.add_annotation(
            x=axis[warm - 1],
            y=1,
            yref="paper",
            text="warm start ends",
            showarrow=False,
            xanchor="left",
        )
    _style(figure, height=340)
    figure.update_yaxes(title="loss")
    return figure


def plot_comparison(
    curves: Mapping[str, Sequence[float]], *, first: int = 1, loss: str = ""
) -> Figure:
    """Loss of each slice before it was learned, one line per method.

    Parameters
    ----------
    curves
        Loss per cell by name of the method, the best first.
    first
        Number of the first slice.
    loss
        Name of the loss.
    """
    from plotly.graph_objects import Figure, Scatter

    figure = Figure()
    for place, (name, values) in enumerate(curves.items()):
        # Where colours come round again, the line is another.
        dash = ("solid", "dash", "dot")[place // len(COLORS) % 3]
        line = {"color": COLORS[place % len(COLORS)], "width": 1.6, "dash": dash}
        numbers = list(range(first, first + len(values)))
        figure.add_trace(Scatter(x=numbers, y=list(values), mode="lines", name=name, line=line))
    _style(figure, height=420)
    figure.update_xaxes(title="slice")
    figure.update_yaxes(title=f"{loss} loss per cell, predicted".strip())
    return figure


def plot_drift(drift: ArrayLike, times: Sequence[Any] | None = None) -> Figure:
    """Heat map of how far each component turned in each slice.

    Parameters
    ----------
    drift
        (slices, rank), 0 for unchanged to 1.
    times
        Time of each slice; numbers from 1 without.
    """
    from plotly.graph_objects import Figure, Heatmap

    values = _matrix(drift, "drift")
    names = [f"component {r + 1}" for r in range(values.shape[1])]
    ramp = [[0, "#f4f2ec"], [0.25, "#f7cd80"], [0.5, "#de7828"], [0.75, "#962d0c"], [1, "#460c14"]]
    heat = Heatmap(z=values.T, x=_axis(times, len(values)), y=names, colorscale=ramp, zmin=0)
    figure = Figure(heat)
    _style(figure, height=120 + 24 * len(names))
    figure.update_yaxes(autorange="reversed")
    return figure


def _column(model: KTensor, k: int, name: str, column: np.ndarray, color: str, top: int) -> Any:
    from plotly.graph_objects import Bar, Scatter

    given = model.labels[k] if model.labels is not None else None
    labels = list(given) if given is not None else [str(i) for i in range(len(column))]
    # Rows without names have the order they came in.
    kind: Kind = "ordered" if given is None else guess_kind(name, labels)
    if kind != "category":
        order = natural_order(kind, labels)
        line = {"color": color, "width": 2}
        x, y = [labels[i] for i in order], column[order]
        return Scatter(x=x, y=y, mode="lines", line=line, fill="tozeroy", name=name)
    best = np.argsort(-np.abs(column), kind="stable")[:top]
    hover = [f"{labels[i]}: {number(float(column[i]))}" for i in best]
    return Bar(
        x=column[best],
        y=[labels[i] for i in best],
        orientation="h",
        marker={"color": color},
        hovertext=hover,
        hoverinfo="text",
        name=name,
    )


def _style(figure: Figure, height: int) -> None:
    figure.update_layout(
        template="none",
        height=height,
        font={"family": "Inter, system-ui, sans-serif", "size": 13, "color": _INK},
        margin={"l": 70, "r": 40, "t": 50, "b": 45},
        hovermode="closest",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        paper_bgcolor="white",
        plot_bgcolor="white",
    )
    figure.update_xaxes(linecolor=_SOFT, showgrid=False, zeroline=False)
    figure.update_yaxes(gridcolor=_LINE, zeroline=False)


def _axis(times: Sequence[Any] | None, length: int) -> list[Any]:
    if times is None:
        return list(range(1, length + 1))
    if len(times) != length:
        raise DataError(
            f"times must name every slice, {length} of them, but has {len(times)}. Give one time "
            "per slice, or None."
        )
    return list(times)


def _matrix(values: ArrayLike, name: str) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2:
        raise DataError(
            f"{name} must be a (slices, rank) matrix, but has {array.ndim} dimensions. Stack the "
            "weights of the slices with np.stack."
        )
    return array


def _names(modes: Sequence[str] | None, ndim: int) -> list[str]:
    names = [f"mode {k + 1}" for k in range(ndim)] if modes is None else [str(m) for m in modes]
    if len(names) != ndim:
        raise DataError(
            f"modes must name every mode, {ndim} of them, but has {len(names)}. Give {ndim} names."
        )
    return names
