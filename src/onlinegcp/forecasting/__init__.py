"""What comes next: weights carried on, and what they say of totals and cells."""

from __future__ import annotations

from onlinegcp.forecasting.forecast import Forecast as Forecast
from onlinegcp.forecasting.forecast import forecast as forecast
from onlinegcp.forecasting.recent import Recent as Recent
