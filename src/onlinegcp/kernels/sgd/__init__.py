"""Loops of the paper's sampled gradients."""
