"""Records with checksums: any byte that is changed is noticed, old records are read as they are."""

from __future__ import annotations

import json

import pytest

from onlinegcp.storage.sealed import seal, unseal

RECORD = {"number": 12, "time": "2018-01-01", "weights": [1.5, 2.0], "name": "Zürich \ud800"}


@pytest.fixture(params=[None, 1], ids=["one line", "many lines"])
def sealed(request):
    separators = (",", ":") if request.param is None else None
    return seal(json.dumps(RECORD, indent=request.param, separators=separators).encode())


def test_a_sealed_record_is_json_and_comes_back(sealed):
    assert unseal(sealed + b"\n") == (RECORD, True)
    assert {k: v for k, v in json.loads(sealed).items() if k != "crc"} == RECORD


def test_every_changed_byte_is_noticed(sealed):
    for place in range(len(sealed)):
        for flip in (1, 2, 32, 128, 255):
            changed = bytearray(sealed)
            changed[place] ^= flip
            with pytest.raises(ValueError):
                unseal(bytes(changed))


def test_cut_and_doubled_records_are_noticed(sealed):
    for end in range(1, len(sealed)):
        with pytest.raises(ValueError):
            unseal(sealed[:end])
    with pytest.raises(ValueError):
        unseal(sealed + sealed)


@pytest.mark.parametrize("text", [b'{"number":1}', b'{"a":{"crc":"x"}}', b"{}"])
def test_records_without_a_checksum_are_old(text):
    assert unseal(text) == (json.loads(text), False)


DEEP = b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"null", b"7", b"nonsense", b"\xff", DEEP, seal(DEEP)]
)
def test_what_is_no_record_is_refused(text):
    with pytest.raises(ValueError):
        unseal(text)
