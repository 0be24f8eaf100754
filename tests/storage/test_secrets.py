"""Secrets are taken out of whatever is stored or shown, and nothing else is."""

from __future__ import annotations

import pytest

from onlinegcp.cli import Exit, call
from onlinegcp.storage.secrets import redacted


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ann:geheim@db/x",
        "postgres://ann:ge@heim@db/x",
        "postgresql://ann:geheim/geheim@db/x",
        "['postgresql://ann:geheim@db/x', 'b']",
        "postgresql:///x?user=ann&password=geheim&host=db",
        "connection failed: user=ann password='geheim \\' geheim' host=db",
        "redis://:geheim@h:1/s and redis://ann:geheim@h/t",
        "aws_secret_access_key=geheim",
        "az://box/x?sas_token=geheim",
        "account_key = geheim, endpoint=x",
    ],
)
def test_secrets_go(text):
    found = redacted(text)
    assert "geheim" not in found
    assert "***" in found
    assert redacted(found) == found


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ann@db:5432/x",
        "postgresql:///x?host=/tmp/a",
        "redis://localhost:6379/events",
        "s3://bucket/rides/*.parquet",
        "Column 'password' must have a value in every row, but row 3 of a.csv has none.",
        "12:30@home",
    ],
)
def test_all_else_stays(text):
    assert redacted(text) == text


def test_no_command_shows_a_secret(capfd, tmp_path):
    table = ["--time", "t", "--every", "1d", "--modes", "a", "-o", str(tmp_path / "x")]
    for source in (
        "postgresql://ann:geheim@h/x",
        "mysql://ann:geheim@h/x",
        "redis://:geheim@h:x/y",
    ):
        assert call(["fit", source, *table]) is Exit.BAD_INPUT
        assert call(["fit", source, source, *table]) is Exit.BAD_INPUT
        assert call(["fit", "--tabel", source, *table]) is Exit.BAD_INPUT
    told = capfd.readouterr()
    assert "***" in told.err
    assert "geheim" not in told.err + told.out
