"""Results that must not change while the house is rebuilt: every method, loss and solver, small.

`computed()` has them computed; `PYTHONPATH=tests python -m recorded.results` writes them down anew,
which is right only after a change that was meant to alter numbers, and the commit says why.

A process of its own computes them, with matrix products that any x86-64 processor of the last ten
years has: OpenBLAS picks others on a Zen 4 than on a Zen 5, and a fit of a hundred iterations makes
a last digit the first.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import numpy as np
from threadpoolctl import threadpool_info

from onlinegcp import cp_als, cp_apr, gcp
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import LOSS_NAMES, get_loss
from onlinegcp.report.payload import build
from onlinegcp.runlog import read_run
from onlinegcp.slices import Slice
from onlinegcp.streaming import METHODS, OnlineGCP
from run_tools import learn_events, learn_slices, make_slices, steps_of, write_events

FILE = Path(__file__).with_name("results.npz")
# Losses without a likelihood are given the data of one that has one.
DRAWN_AS = {"huber": "gaussian", "beta": "gamma"}
PRODUCTS = "Haswell"  # whose matrix products are used
METHODS_RECORDED = ("online_sgd", "online_cp", "cp_stream")


def computed():
    """Every recorded array by name, and the machine, computed with the products of `PRODUCTS`."""
    tests = str(Path(__file__).parents[1])
    paths = os.pathsep.join(filter(None, [tests, os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "results.npz")
        subprocess.run(
            [sys.executable, "-m", "recorded.results", str(file)],
            env={**os.environ, "PYTHONPATH": paths, "OPENBLAS_CORETYPE": PRODUCTS},
            check=True,
        )
        with np.load(file) as found:
            return dict(found)


def collect():
    """Every recorded array but those of trials."""
    found = {}
    for name in LOSS_NAMES:
        for solver in ("auto", "sgd"):
            model = OnlineGCP(2, name, solver=solver, init_slices=4, random_state=3)
            found |= _told(f"{solver}.{name}", model, _stream(name))
        model = OnlineGCP(2, name, init_slices=4)
        found |= _told(f"missing.{name}", model, _stream(name, missing=0.3))
    for name in ("gaussian", "poisson", "bernoulli_odds", "huber"):
        found |= _told(f"grown.{name}", OnlineGCP(2, name, init_slices=4), _growing(name))
        fixed = OnlineGCP(2, name, init_slices=4, forget=20.0)
        found |= _told(f"half_life.{name}", fixed, _stream(name))
    for name in ("gaussian", "huber", "bernoulli_logit"):
        bounded = OnlineGCP(2, name, init_slices=4, lower=0.0)
        found |= _told(f"bounded.{name}", bounded, _stream(name))
    for name in METHODS_RECORDED:
        found |= _told(name, METHODS[name](2, init_slices=4), _stream("gaussian"))
    whole = Slice.dense(np.stack([x.to_dense() for x in _stream("poisson")], axis=-1))
    for fit in (cp_als, cp_apr, gcp):
        found |= _of(f"static.{fit.__name__}", fit(whole, 2, seed=1).ktensor)
    return found | _runs()


def trials():
    """Streams in which components are replaced, merged or split on trial."""
    found = {}
    for name in ("gaussian", "poisson", "bernoulli_logit"):
        before = _stream(name, shape=(8, 7), rank=3, n=30, seed=5)
        after = _stream(name, shape=(8, 7), rank=3, n=40, seed=6)
        model = OnlineGCP(3, name, init_slices=5)
        found |= _told(f"trial.{name}", model, [*before, *after])
    return found


def machine():
    """What bits depend on besides the code: processors of one family have the same."""
    kinds = [found["architecture"] for found in threadpool_info() if "architecture" in found]
    products = kinds[0] if kinds else "unknown"
    parts = [platform.machine(), _family(), products, np.__version__, numba.__version__]
    return " ".join(parts)


def _family():
    import llvmlite.binding as llvm

    name = numba.config.CPU_NAME or llvm.get_host_cpu_name()
    wide = " avx512" if llvm.get_host_cpu_features().get("avx512f") else ""
    return name.rstrip("0123456789") + wide


def _told(name, model, stream):
    losses = []
    for x in stream:
        model.partial_fit([x])
        if model.last_ is not None:
            losses.append((model.last_.prequential, model.last_.local))
    return {f"{name}.losses": np.array(losses)} | _of(name, model.to_ktensor())


def _of(name, ktensor):
    parts = {f"{name}.factor{k}": np.array(a) for k, a in enumerate(ktensor.factors)}
    return {f"{name}.weights": np.array(ktensor.weights)} | parts


def _stream(name, *, shape=(6, 5, 4), rank=2, n=12, seed=0, missing=0.0):
    loss, rng = get_loss(name), np.random.default_rng(seed)
    drawn_as, signed = get_loss(DRAWN_AS.get(name, name)), np.isinf(loss.lower)
    factors = [
        rng.normal(size=(size, rank)) if signed else rng.gamma(1.0, 1.0, (size, rank)) + 0.05
        for size in shape
    ]
    slices = []
    for t in range(n):
        weights = rng.uniform(0.5, 1.5, rank)
        x = np.array(drawn_as.sample(rng, KTensor(weights, factors).full()), dtype=float)
        if missing:
            x[rng.random(x.shape) < missing] = np.nan
        slices.append(Slice.dense(x, time=t))
    return slices


def _growing(name):
    small = _stream(name)
    return [
        Slice(x.index[keep], x.value[keep], shape, time=x.time)
        for t, x in enumerate(small)
        for shape in [(6 if t > 6 else 5, 5, 4)]
        for keep in [(x.index[:, 0] < shape[0]) & (x.value != 0.0)]
    ]


def _runs():
    with tempfile.TemporaryDirectory() as folder:
        slices, events = Path(folder, "slices.run"), Path(folder, "events.run")
        learn_slices(slices, make_slices())
        learn_events(events, write_events(Path(folder, "events.csv")))
        pages = [_page(build(read_run(path))) for path in (slices, events)]
        lines = [steps_of(path) for path in (slices, events)]
    texts = {"run.slices": lines[0], "run.events": lines[1]} | {
        "page.slices": pages[0],
        "page.events": pages[1],
    }
    return {
        name: np.frombuffer(json.dumps(text, sort_keys=True, default=str).encode(), np.uint8)
        for name, text in texts.items()
    }


def _page(payload):
    """The payload without what differs from run to run: seconds, dates, places, versions."""
    left_out = ("seconds", "created", "path", "environment", "version", "name", "title", "run")
    if isinstance(payload, dict):
        return {k: _page(v) for k, v in payload.items() if k not in left_out}
    return [_page(v) for v in payload] if isinstance(payload, list) else payload


if __name__ == "__main__":
    if len(sys.argv) > 1:
        np.savez(sys.argv[1], machine=np.array(machine()), **collect(), **trials())
    else:
        np.savez_compressed(FILE, **computed())
        print(f"{FILE}: {FILE.stat().st_size:,} bytes")
