"""Secrets in what is stored or shown: one function that takes them out."""

from __future__ import annotations

import re
from collections.abc import Sequence

HIDDEN = "***"

# user:password@ of an address. A password may hold an @ or a slash: better too much than too
# little.
_IN_ADDRESS = re.compile(r"(?P<start>\b[a-zA-Z][\w+.-]*://[^\s/:@?#]*:)(?P<secret>\S*)(?=@)")
# password=..., in an address or in the words of a driver, perhaps in quotes.
_NAMED = re.compile(
    r"(?P<start>\b\w*(?:passw(?:or)?d|passphrase|secret|token|sas|access_?key|account_?key|"
    r"credential)\w*\s*=\s*)(?P<secret>'(?:[^'\\]|\\.)*'|\"[^\"]*\"|[^\s&;,'\"]+)",
    re.IGNORECASE,
)


def redacted(text: str) -> str:
    """The text without the passwords, keys and tokens in it.

    Examples
    --------
    >>> redacted("postgresql://ann:p@ss@db:5432/taxi?sslpassword=x&application_name=a")
    'postgresql://ann:***@db:5432/taxi?sslpassword=***&application_name=a'
    >>> redacted("redis://:geheim@localhost/events"), redacted("trips/*.parquet")
    ('redis://:***@localhost/events', 'trips/*.parquet')
    """
    text = _IN_ADDRESS.sub(rf"\g<start>{HIDDEN}", text)
    return _NAMED.sub(rf"\g<start>{HIDDEN}", text)


# Of these options the value itself lets in whoever knows it: the path of a webhook, the headers of
# a command that sends alarms.
_HOOKS = ("--webhook", "--on-alarm")


def redacted_words(words: Sequence[str]) -> list[str]:
    """The words of a command without secrets.

    Examples
    --------
    >>> redacted_words(["fit", "a.csv", "--webhook", "https://hooks.example.com/T0/B0/key"])
    ['fit', 'a.csv', '--webhook', 'https://hooks.example.com/***']
    >>> redacted_words(["--on-alarm=curl -H 'Authorization: Bearer key' https://example.com"])
    ['--on-alarm=curl ***']
    """
    found: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        option, equals, value = word.partition("=")
        if before in _HOOKS:
            found.append(_hook(word))
        elif option in _HOOKS and equals:
            found.append(f"{option}={_hook(value)}")
        else:
            found.append(redacted(word))
    return found


def hidden_address(address: str) -> str:
    """An address without its path and what comes after, by which it may be a secret.

    Examples
    --------
    >>> hidden_address("https://ann:key@hooks.example.com:8443/T0/B0/key?token=key")
    'https://hooks.example.com:8443/***'
    >>> hidden_address("hooks.example.com/key")
    'hooks.example.com/***'
    """
    scheme, colon, rest = address.rpartition("://")
    host, slash, _ = rest.replace("?", "/").replace("#", "/").partition("/")
    return f"{scheme}{colon}{host.rpartition('@')[2]}{slash and f'/{HIDDEN}'}"


def _hook(value: str) -> str:
    """A webhook's host, or the name of a command."""
    if "://" in value.split(" ")[0]:
        return hidden_address(value)
    program, space, _ = value.partition(" ")
    return f"{program}{space and f' {HIDDEN}'}"
