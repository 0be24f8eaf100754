"""Labels that are known before any row: vocabularies as people give them, or a file of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onlinegcp.errors import DataError
from onlinegcp.events.vocabulary import number_text
from onlinegcp.storage.labels import Labels


def read_vocabulary(
    given: Mapping[str, Sequence[Any]] | str | os.PathLike[str],
) -> dict[str, Sequence[str]]:
    """Labels by mode, from a mapping or from a JSON file that holds one.

    Examples
    --------
    >>> read_vocabulary({"pu": [3, "JFK", True]})
    {'pu': ['3', 'JFK', 'true']}
    """
    origin = "vocabulary"
    if isinstance(given, (str, os.PathLike)):
        origin = os.fspath(given)
        try:
            given = json.loads(Path(given).read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(
                f"vocabulary must name a JSON file of labels, but {origin} could not be read: "
                f"{error.strerror or error}. Check the path and its permissions."
            ) from error
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"vocabulary must name a JSON file of labels, but {origin} is not JSON: {error}. "
                'Write something like {"origin": ["EWR", "JFK"]}.'
            ) from error
    if not isinstance(given, Mapping):
        raise DataError(
            f"vocabulary must map modes to lists of labels, but {origin} holds a "
            f'{type(given).__name__}. Write something like {{"origin": ["EWR", "JFK"]}}.'
        )
    read: dict[str, Sequence[str]] = {}
    for mode, labels in given.items():
        if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
            raise DataError(
                f"vocabulary must map modes to lists of labels, but {origin} has {labels!r} for "
                f'{mode!r}. Write something like {{"{mode}": ["a", "b"]}}.'
            )
        if isinstance(labels, Labels):  # of a run, and in order
            read[str(mode)] = labels
            continue
        names = [_label(label, mode, origin) for label in labels]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(
                f"The labels of a mode must differ, but {origin} has {twice!r} twice for {mode!r}. "
                "Remove one of them."
            )
        read[str(mode)] = names
    return read


def _label(label: Any, mode: str, origin: str) -> str:
    if isinstance(label, (bool, np.bool_)):
        return str(bool(label)).lower()
    if isinstance(label, (int, np.integer)):
        return str(int(label))
    if isinstance(label, float):
        return number_text(label)
    if isinstance(label, str) and label and not any("\ud800" <= c <= "\udfff" for c in label):
        return label
    raise DataError(
        f"Labels must be text, numbers or booleans, but {origin} has {label!r} for {mode!r}. "
        "Null, empty text and halves of characters are no labels: leave them out."
    )
