"""The settings of a run, of one stream or of many: JSON with a checksum, replaced all at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from onlinegcp.errors import StateError
from onlinegcp.runlog.files import FORMAT, RUN
from onlinegcp.runlog.line import plain
from onlinegcp.runlog.shapes import check_info
from onlinegcp.storage.appending import unreadable
from onlinegcp.storage.atomic import replacing
from onlinegcp.storage.sealed import seal, unseal


@final
@dataclass(frozen=True)
class SettingsFile:
    """Where the settings of one kind of run lie, and what a reader is told who finds none.

    Attributes
    ----------
    name
        Name of the file.
    what
        What a directory is that has it.
    command
        What makes such a directory.
    format
        The newest format that is known, which is written.
    """

    name: str
    what: str
    command: str
    format: int

    def write(self, folder: Path, info: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the settings of a directory by these, in the present format; what is in them."""
        found = {**info, "format": self.format}
        text = json.dumps(plain(found), indent=1, allow_nan=False)
        with replacing(folder / self.name, of_run=True) as file:
            file.write(seal(text.encode()) + b"\n")
        return found

    def read(self, folder: Path) -> dict[str, Any]:
        """What the settings of a directory hold."""
        source = folder / self.name
        try:
            text = source.read_bytes()
        except (FileNotFoundError, NotADirectoryError) as error:
            here = "is no directory" if not folder.is_dir() else f"has no {self.name}"
            raise StateError(
                f"{self.what} was needed, but {folder} {here}. Give the directory that "
                f"{self.command} wrote with -o."
            ) from error
        except OSError as error:
            raise unreadable(source, error) from error
        try:
            info, _ = unseal(text)
            version = int(info["format"])
            if version <= self.format:
                check_info(info)
        except (ValueError, KeyError, TypeError) as error:
            raise self.damaged(folder, error) from error
        if version > self.format:
            raise StateError(
                f"{self.what} of format {self.format} or older can be read by this version of "
                f"onlinegcp, but {folder} has format {version}. Upgrade onlinegcp to read it."
            )
        return info

    def damaged(self, folder: Path, why: object) -> StateError:
        """The error for settings that are none."""
        return StateError(
            f"{folder / self.name} must be the settings of {self.what}, but is no such JSON "
            f"({why}). The file is damaged or not ours; restore it from a copy."
        )


RUN_JSON = SettingsFile(RUN, "a run directory", "fit", FORMAT)
