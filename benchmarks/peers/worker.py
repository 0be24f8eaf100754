"""The rival's end of `rival.Rival`: read a request, solve it, save the model, reply."""

from __future__ import annotations

import importlib
import json
import os
import sys

import numpy as np


def main(name: str, descriptor: int) -> None:
    """Serve requests until the other end closes the pipe."""
    module = importlib.import_module(f"benchmarks.peers.{name}")
    with os.fdopen(descriptor, "w") as replies:
        for line in sys.stdin:
            request = json.loads(line)
            with np.load(request["problem"]) as arrays:
                problem = dict(arrays)
            solve = getattr(module, request["task"])
            seconds, weights, factors, note = solve(problem, **request["options"])
            named = {f"factor{k}": np.asarray(a) for k, a in enumerate(factors)}
            np.savez(request["model"], weights=np.asarray(weights), **named)
            replies.write(json.dumps({"seconds": seconds, "note": note}) + "\n")
            replies.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
