"""Files that a command writes besides generated ones: reports, tables, results, schemas.

One rule for all of them: a file is written where nothing stands, or where an earlier file of the same kind
does, which is recognised by its beginning. Anything else is somebody's work and takes --force. All files of a
command are checked before it measures or writes anything, and each file that is written is named on stderr or
in the answer.
"""

from __future__ import annotations

from pathlib import Path
from re import Pattern
from stat import S_ISREG
from typing import NamedTuple

import click

from tilewright.base import writing
from tilewright_generator.errors import UsageError

FORCE_HELP = "Also replace files that tilewright did not write."
force_option = click.option("--force", is_flag=True, help=FORCE_HELP)

_BEGINNING = 16384  # bytes at the start of a file that show its kind


class OutputFile(NamedTuple):
    """A file to write."""

    path: Path
    mark: Pattern[bytes]
    """A pattern that matches the beginning of every file of this kind."""
    force: bool = False
    option: str = ""
    """The option that names it."""

    def check(self) -> None:
        """Raises UsageError if the file cannot be written, or if a file of another kind exists in its
        place."""
        named = f"{self.option} {self.path}".strip()
        if not self.path.absolute().parent.is_dir():
            raise UsageError(f"{named}: there is no folder {self.path.parent}")
        try:
            # A pipe or a device keeps nothing that could be lost, /dev/stdout neither, though it is a link.
            if not S_ISREG(self.path.stat().st_mode):
                return
            writing.check(self.path)
            with self.path.open("rb") as file:
                beginning = file.read(_BEGINNING)
        except FileNotFoundError:
            writing.check(self.path)
            return
        except OSError as error:
            raise UsageError(f"cannot write {self.path}: {error.strerror}") from None
        if beginning and not self.force and not self.mark.search(beginning):
            raise UsageError(
                f"{named} exists and is no file that this command writes: move it away, or --force "
                "replaces it"
            )

    def write(self, content: str | bytes) -> None:
        """Writes the file whole or not at all. Raises as `check`."""
        self.check()
        data = content.encode() if isinstance(content, str) else content
        try:
            if self.path.exists() and not self.path.is_file():
                self.path.write_bytes(data)
            else:
                writing.write(self.path, data)
        except OSError as error:
            raise UsageError(f"cannot write {self.path}: {error.strerror}") from None
