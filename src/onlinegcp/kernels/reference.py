"""Plain NumPy versions of every kernel: slow, obvious, and the oracle of the tests."""
