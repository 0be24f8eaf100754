"""Figures of a streaming model, drawn by plotly."""

from __future__ import annotations

from typing import Any

import numpy as np


class Plotting:
    """The part of every streaming model that draws it."""

    def to_ktensor(self, labels: Any = None) -> Any:
        raise NotImplementedError

    def transform(self, x: Any) -> Any:
        raise NotImplementedError

    def plot_components(self, labels: Any = None, **options: Any) -> Any:
        """The patterns as a plotly figure; see `onlinegcp.drawing.charts.plot_components`."""
        from onlinegcp.drawing.charts import plot_components

        return plot_components(self.to_ktensor(labels), **options)

    def plot_activations(self, x: Any, times: Any = None) -> Any:
        """How strong each pattern is in each of several slices, as a plotly figure."""
        from onlinegcp.drawing.charts import plot_activations

        return plot_activations(np.atleast_2d(self.transform(x)), times)
