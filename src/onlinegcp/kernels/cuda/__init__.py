"""Loops of the solvers on an NVIDIA card; nothing here is imported before a card is asked for."""
