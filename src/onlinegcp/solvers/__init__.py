"""Solvers of one block problem each, the other blocks held fixed."""
