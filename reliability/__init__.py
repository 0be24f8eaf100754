"""Proof that stays: fuzzers and a soak test, beyond what the tests have time for."""
