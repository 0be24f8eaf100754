"""Secrets are taken out of whatever is stored or shown, and nothing else is."""

from __future__ import annotations

import pytest

from onlinegcp.cli import Exit, call
from onlinegcp.storage.secrets import hidden_address, redacted, redacted_words


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
    assert redacted_words(["fit", text, "--note", text]) == ["fit", text, "--note", text]
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


@pytest.mark.parametrize(
    "words",
    [
        ["--webhook", "https://hooks.example.com/services/geheim"],
        ["--webhook=https://hooks.example.com/services/geheim"],
        ["--webhook", "https://hooks.example.com?key=geheim"],
        ["--webhook", "https://geheim:geheim@hooks.example.com/"],
        ["--on-alarm", "curl -H 'Authorization: Bearer geheim' https://example.com/geheim"],
        ["--on-alarm=mail --key geheim"],
        ["--on-alarm", "https://example.com/geheim"],
    ],
)
def test_hooks_are_secrets_themselves(words):
    found = redacted_words(["fit", "a.csv", *words, "-o", "a.run"])
    assert "geheim" not in " ".join(found)
    assert found[:2] + found[-2:] == ["fit", "a.csv", "-o", "a.run"]
    assert len(found) == len(words) + 4
    assert redacted_words(found) == found


def test_hosts_of_hooks_stay():
    assert hidden_address("http://localhost:8000") == "http://localhost:8000"
    assert hidden_address("http://localhost:8000/x/y") == "http://localhost:8000/***"
