"""Run benchmarks: `python -m benchmarks.run [names] [--quick] [--dry]`.

Every contestant runs on one thread, in turns with ours, in the same minutes. Rows go to
results.csv; `python -m benchmarks.table` turns the latest ones into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from typing import TYPE_CHECKING

from benchmarks.timing import ONE_THREAD

if TYPE_CHECKING:
    from benchmarks.records import Row

NAMES = [
    "sgd_iteration",
    "cp_als",
    "gcp_stratified",
    "cp_apr",
    "memory",
    "startup",
    "events",
    "labels",
    "streaming",
    "auto",
    "auto_quality",
    "change",
    "forgetting",
    "rivals",
    "alarms",
    "stream_memory",
    "many_streams",
    "huge_slice",
    "chicago_full",
    "least_squares",
    "methods",
    "forecast",
    "ranks",
    "pages",
    "slices",
    "cores",
    "cluster",
    "gpu",
]


def main() -> int:
    """Run the named benchmarks and append their rows; 1 if a promise is broken."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="name",
        help=f"from {', '.join(NAMES)}; streaming/taxi for one case",
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds, the smaller cases")
    parser.add_argument("--dry", action="store_true", help="show rows, leave results.csv alone")
    arguments = parser.parse_args()
    unknown = sorted({name.split("/")[0] for name in arguments.names} - set(NAMES))
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]!r}; there are {', '.join(NAMES)}")
    os.environ.update(ONE_THREAD)

    from benchmarks.records import append, source

    where = source()
    broken = 0
    for name in arguments.names or NAMES:
        begin = time.perf_counter()
        module, *case = name.split("/")
        only = {"only": case[0]} if case else {}
        benchmark = importlib.import_module(f"benchmarks.{module}")
        here = getattr(benchmark, "machine", lambda known: known)(where["machine"])
        empty = True
        for row in benchmark.run(quick=arguments.quick, **only):
            empty = False
            print(_line(row), flush=True)
            broken += row.met == "no"
            if not arguments.dry:
                append(row, where | {"machine": here})
        done = "nothing ran: there is no such case, or not its data" if empty else "done"
        print(f"-- {name}: {done}, {time.perf_counter() - begin:.0f} s", flush=True)
    return 1 if broken else 0


def _line(row: Row) -> str:
    from benchmarks.records import four_digits

    times = f"{four_digits(row.median):>10} {row.unit}"
    spread = f"[{four_digits(row.p20)}, {four_digits(row.p80)}]"
    compared = "" if row.ratio is None else f"  {row.ratio:.3g} x {row.against}"
    promise = f"  target {row.target}: {'met' if row.met == 'yes' else 'MISSED'}"
    rest = f"{compared}{promise if row.target else ''}  {row.objective} {row.note}"
    return f"{row.case:16} {row.method:12} {times} {spread}{rest}".rstrip()


if __name__ == "__main__":
    sys.exit(main())
