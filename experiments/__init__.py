"""The paper's four experiments, one command each: `python -m experiments.gaussian`."""
