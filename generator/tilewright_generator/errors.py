"""Errors, each kind with the exit code of the command line.

0 fine, 1 drift or a failed check, 2 usage or a wrong spec, 3 an internal error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import click

from tilewright.base import plugins
from tilewright_generator.limits import MOST_FAULTS

Message = str | Callable[[], str]
"""A message, or a function that makes it: a suggestion takes time, so it is made only if it is printed."""


class TilewrightError(click.ClickException):
    """Base of every error that is meant for a person; its message is whole without a traceback."""

    exit_code = 3


class DriftError(TilewrightError):
    """Generated files differ from what the specs say, or a check failed."""

    exit_code = 1


class UsageError(TilewrightError):
    """The command line, a path or a tilewright file cannot be used as given."""

    exit_code = 2


class InternalError(TilewrightError):
    """A mistake in tilewright, in a family or in a template; never the user's."""


class FamilyError(InternalError):
    """A mistake in a family from outside."""

    exit_code = 2


def mistake(family: str, message: str, file: str = "") -> InternalError:
    """The error for a mistake in a family's code: ours, or that of the author of a plugin.

    `file`: the file with the mistake, if it is not the family's kernel.py.
    """
    home = plugins.families().get(family)
    if home is None:
        return InternalError(message)
    return FamilyError(
        f"{message}\n{file or home / 'kernel.py'} makes it so; TILEWRIGHT_DEBUG=1 shows the traceback"
    )


class Position(NamedTuple):
    """A place in a spec. Line and column count from 1, as editors do."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Fault(NamedTuple):
    """One fault of a spec, with its place."""

    position: Position
    message: str

    def __str__(self) -> str:
        return f"{self.position}: {self.message}"


class SpecError(UsageError):
    """All faults of the specs, in the order in which a reader meets them."""

    def __init__(self, faults: Iterable[Fault], more: int = 0) -> None:
        """`more`: the number of faults that are not kept."""
        self.faults = sorted(set(faults))
        self.consequence = ""
        """The text that a command that writes adds to the number of faults."""
        self.more = more
        super().__init__("\n".join(map(str, self.faults)))

    def show(self, file: object = None) -> None:
        """Prints each fault on a line that editors can jump to, then their number."""
        count = len(self.faults) + self.more
        click.echo(self.message, err=True)
        if self.more:
            click.echo(f"... and {self.more:,} more", err=True)
        click.echo(f"{count:,} fault{'' if count == 1 else 's'}{self.consequence}.", err=True)


class Faults:
    """Collects the faults of the specs, so that a person sees all of them at once.

    The first `MOST_FAULTS` of each file are kept, and the rest counted.
    """

    def __init__(self) -> None:
        self._faults: dict[str, set[Fault]] = {}
        self._added: dict[str, int] = {}
        self._more = 0

    def add(self, position: Position, message: Message) -> bool:
        """Adds a fault. Returns whether it is kept."""
        of_file = self._faults.setdefault(position.file, set())
        added = self._added[position.file] = self._added.get(position.file, 0) + 1
        # An alias repeats its faults. They are kept once, and the number of comparisons is limited.
        kept = len(of_file) < MOST_FAULTS and added <= 3 * MOST_FAULTS
        if kept:
            of_file.add(Fault(position, message if isinstance(message, str) else message()))
        else:
            self._more += 1
        return kept

    def __len__(self) -> int:
        return sum(self._added.values())

    def raise_if_any(self) -> None:
        """Raises one `SpecError` with all faults so far."""
        if self._faults:
            raise SpecError((problem for faults in self._faults.values() for problem in faults), self._more)
