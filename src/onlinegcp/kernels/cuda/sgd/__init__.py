"""The iterations of the paper's solver on an NVIDIA card."""
