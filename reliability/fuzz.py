"""Random damage, by the minute: whatever comes in, the answer is a result or a refusal in words.

    python -m reliability.fuzz --seconds 300
    python -m reliability.fuzz --only tables --seed 17 --rounds 1

Every round has a number, from which all of it follows, so that a failure can be had again. `make
test` plays a few rounds of each.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np

from reliability import fuzz_runs, fuzz_tables, fuzz_values, fuzz_words

Round = Callable[[np.random.Generator, Path], None]
FUZZERS: dict[str, Round] = {
    "tables": fuzz_tables.play,
    "cuts": fuzz_tables.play_cuts,
    "runs": fuzz_runs.play,
    "values": fuzz_values.play,
    "words": fuzz_words.play,
}


def play(name: str, number: int, folder: Path) -> None:
    """One round of one fuzzer; raises whatever went wrong."""
    FUZZERS[name](np.random.default_rng([number, sorted(FUZZERS).index(name)]), folder)


def main() -> int:
    """Play until the time is over; the number of rounds that failed is the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--rounds", type=int, default=10**9, help="most rounds of each")
    parser.add_argument("--seed", type=int, default=0, help="number of the first round")
    parser.add_argument("--only", choices=sorted(FUZZERS))
    given = parser.parse_args()
    logging.getLogger("onlinegcp").setLevel(logging.ERROR)
    names = [given.only] if given.only else sorted(FUZZERS)
    played, failed = dict.fromkeys(names, 0), 0
    end = time.monotonic() + given.seconds
    for number in range(given.seed, given.seed + given.rounds):
        if time.monotonic() >= end:
            break
        for name in names:
            with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
                try:
                    play(name, number, Path(folder))
                except Exception:
                    failed += 1
                    print(f"--- {name}, round {number}:")
                    traceback.print_exc()
            played[name] += 1
    print(", ".join(f"{n:,} rounds of {name}" for name, n in played.items()), f"{failed} failed")
    return min(failed, 100)


if __name__ == "__main__":
    raise SystemExit(main())
