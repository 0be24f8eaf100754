"""The default solver's models on an NVIDIA card."""
