"""Secrets in what is stored or shown: one function that takes them out."""

from __future__ import annotations

import re

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
