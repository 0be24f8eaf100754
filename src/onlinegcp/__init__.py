"""Streaming generalized CP tensor decomposition."""

__version__ = "0.1.0"
