"""Loops of the static methods."""
