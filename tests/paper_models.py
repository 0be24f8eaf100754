"""OnlineGCP from one list of options, the settings of the paper's solver among them."""

from __future__ import annotations

from onlinegcp.streaming import SGD, OnlineGCP


def gcp_model(rank, loss="gaussian", **options):
    """The model; with solver="sgd", settings of `SGD` go into its value."""
    if options.get("solver") == "sgd":
        settings = {n: options.pop(n) for n in SGD._get_param_names() if n in options}
        options["solver"] = SGD(**settings)
    return OnlineGCP(rank, loss, **options)
