"""Damaged tables, and tables cut into pieces."""

from __future__ import annotations

import datetime
import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from onlinegcp.errors import OnlineGCPError
from onlinegcp.events import from_events

CORPUS = Path(__file__).parent / "corpus"
START = datetime.datetime(2024, 1, 1)
OPTIONS: dict[str, Any] = {"time": "t", "every": "1d", "modes": ["a", "b"], "value": "v"}


def table(rng: np.random.Generator, n_rows: int = 60) -> pl.DataFrame:
    """Rows in order of time over a fortnight."""
    minutes = np.sort(rng.integers(0, 14 * 1440, n_rows)).tolist()
    return pl.DataFrame(
        {
            "t": [START + datetime.timedelta(minutes=m) for m in minutes],
            "a": [f"a{k}" for k in rng.integers(0, 4, n_rows)],
            "b": rng.integers(0, 5, n_rows),
            "v": rng.integers(1, 9, n_rows).astype(float),
        }
    )


def written(frame: pl.DataFrame, kind: str) -> bytes:
    """The table as a file of some kind."""
    file = io.BytesIO()
    if kind == "parquet":
        frame.write_parquet(file)
    elif kind == "arrow":
        frame.write_ipc(file)
    elif kind == "jsonl":
        frame.write_ndjson(file)
    else:
        frame.write_csv(file)
    return gzip.compress(file.getvalue()) if kind.endswith(".gz") else file.getvalue()


def damaged(rng: np.random.Generator, content: bytes) -> bytes:
    """A few bytes changed, left out, doubled, put into lists and records, or cut off."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        if not data:
            break
        place, length = int(rng.integers(0, len(data))), int(rng.integers(1, 12))
        match int(rng.integers(0, 6)):
            case 0:
                data[place] = int(rng.integers(0, 256))
            case 1:
                del data[place : place + length]
            case 2:
                data[place:place] = data[place : place + length]
            case 3:
                data[place:place] = bytes(rng.choice(list(b',;"\n\r\t{}[]\\0:9e-.')) for _ in "ab")
            case 4:
                left, right = ((b"[", b"]"), (b'{"x":', b"}"))[int(rng.integers(0, 2))]
                levels = 10 ** int(rng.integers(0, 5))
                inner = bytes(data[place : place + length])
                data[place : place + length] = left * levels + inner + right * levels
            case _:
                del data[place:]
    return bytes(data)


def play(rng: np.random.Generator, folder: Path) -> None:
    """A damaged file gives slices of finite numbers, whose rows add up, or a refusal."""
    seeds = sorted(CORPUS.glob("*.*"))
    kinds = ["csv", "jsonl", "parquet", "arrow", "csv.gz"]
    choice = int(rng.integers(0, len(kinds) + len(seeds)))
    if choice < len(kinds):
        name, content = f"x.{kinds[choice]}", written(table(rng), kinds[choice])
    else:
        seed = seeds[choice - len(kinds)]
        name, content = seed.name, seed.read_bytes()
    path = folder / name
    path.write_bytes(damaged(rng, content))
    try:
        stream = from_events(str(path), **OPTIONS, max_gap=50)
        for x in stream:
            assert np.isfinite(x.value).all()
    except OnlineGCPError:
        return
    assert stream.rows.balanced, stream.rows


def play_cuts(rng: np.random.Generator, folder: Path) -> None:
    """Pieces that keep the last bin open give the slices of the whole, and lose no row."""
    whole = table(rng, int(rng.integers(20, 120)))
    wanted = [_key(x) for x in from_events(whole, **OPTIONS)]
    cuts = np.sort(rng.integers(0, whole.height + 1, int(rng.integers(1, 6)))).tolist()
    found, state, read = [], None, 0
    pieces = list(zip([0, *cuts], [*cuts, whole.height], strict=True))
    for number, (first, last) in enumerate(pieces):
        again = max(0, first - int(rng.integers(0, 10))) if rng.random() < 0.3 else first
        if again < first:  # rows that come twice must be of bins that are closed
            again = first
        stream = from_events(
            whole[again:last], **OPTIONS, close_last=number == len(pieces) - 1, in_order=True
        )
        if state is not None:
            stream.restore(json.loads(json.dumps(state)), again=True)
        found += [_key(x) for x in stream]
        assert stream.rows.balanced, stream.rows
        read += stream.rows.read
        state = stream.state()
    assert read == whole.height
    assert found == wanted


def _key(x: Any) -> tuple[Any, ...]:
    listed = sorted(zip(map(tuple, x.index.tolist()), x.value.tolist(), strict=True))
    return x.time, listed
