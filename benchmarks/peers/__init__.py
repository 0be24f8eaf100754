"""Rivals, one file each, run in an environment of their own."""
