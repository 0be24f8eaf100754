"""Loops of the default solver."""
