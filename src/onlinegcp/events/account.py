"""What became of the rows that were read: each is learned, or left out for a reason, or waits."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from typing import final


@final
@dataclass(frozen=True)
class Account:
    """Numbers of rows.

    Attributes
    ----------
    read
        All that were read.
    learned
        In slices that were handed out.
    waiting
        In a bin that is not closed yet; below 0 if more of those before were learned since.
    late
        Left out, because their bin was closed already.
    dropped
        Left out, because time, key or value is missing.
    outside
        Left out by `since` and `until`.
    again
        Passed over, because they were read before.
    """

    read: int = 0
    learned: int = 0
    waiting: int = 0
    late: int = 0
    dropped: int = 0
    outside: int = 0
    again: int = 0

    @property
    def balanced(self) -> bool:
        """Whether every row that was read is somewhere."""
        parts = (self.learned, self.waiting, self.late, self.dropped, self.outside, self.again)
        return self.read == sum(parts)

    def warn(self) -> None:
        """Tell, once a source is at its end, of rows that were lost to learning."""
        log = logging.getLogger("onlinegcp")
        if self.late:
            log.warning(
                "%s rows came after their time bin was closed and were dropped", f"{self.late:,}"
            )
        if self.dropped:
            log.warning(
                "%s rows without a time, a key or a value were dropped", f"{self.dropped:,}"
            )

    def since(self, before: Account) -> Account:
        """What has come to it since another account of the same rows.

        Examples
        --------
        >>> Account(read=9, learned=9).since(Account(read=4, learned=4))
        Account(read=5, learned=5, waiting=0, late=0, dropped=0, outside=0, again=0)
        """
        names = [field.name for field in fields(self)]
        return Account(**{name: getattr(self, name) - getattr(before, name) for name in names})
