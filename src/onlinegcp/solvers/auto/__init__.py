"""The default solver: nothing to tune."""
