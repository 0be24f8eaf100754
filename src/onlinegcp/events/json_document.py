"""JSON that is one document, as interfaces and libraries hand it out, not a record per line.

It is not read, for it would have to be held as a whole; it is told how to make a table of it.
"""

from __future__ import annotations

import json
from typing import Any

from onlinegcp.errors import DataError


def refuse_document(text: bytes, name: str) -> None:
    """Refuse text that is one JSON object which holds a table, or records over several lines.

    Parameters
    ----------
    text
        The whole file, or its first record if it has others.
    name
        For the error.

    Examples
    --------
    >>> refuse_document(b'{"day": "2024-01-01", "n": 3}', "a.json")  # a record
    """
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg != "Extra data" or not isinstance(json.loads(text[: error.pos]), dict):
            return  # whoever reads it line by line says which one is wrong
        raise DataError(
            f"Every line must be a JSON record, but those of {name} are spread over several lines. "
            f"Write one per line: jq -c . {name} > rows.jsonl."
        ) from error
    except (ValueError, RecursionError):
        return
    if not isinstance(document, dict):
        return
    inner = [key for key, value in document.items() if _records(value)]
    if inner:
        raise DataError(
            f"A JSON record per row is needed, but {name} is one record, with "
            f"{len(document[inner[0]]):,} of them under {inner[0]!r}. Take them out: "
            f"jq -c '.[{json.dumps(inner[0])}][]' {name} > rows.jsonl."
        )
    inside = [len(value) for value in document.values() if isinstance(value, (list, dict))]
    if len(document) == len(inside) and len(set(inside)) == 1 and inside[0] > 1:
        raise DataError(
            f"A JSON record per row is needed, but {name} is one record of whole columns, "
            f"{', '.join(map(repr, list(document)[:4]))} ... Write it by rows, in pandas with "
            f"pd.read_json({name!r}).to_csv('rows.csv', index=False)."
        )


def _records(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and isinstance(value[0], dict)
