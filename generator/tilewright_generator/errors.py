"""What can go wrong, each kind with the exit code that the command line answers with.

0 fine, 1 drift or a failed check, 2 usage or a wrong spec, 3 an internal error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import click

from tilewright.base import plugins
from tilewright_generator.limits import MOST_FAULTS

Message = str | Callable[[], str]
"""What is wrong. A suggestion takes time, so a function works out a message only where it is printed."""


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


def mistake(family: str, message: str) -> InternalError:
    """The error for a mistake in a family's code: ours, or that of whoever brings the family."""
    home = plugins.families().get(family)
    if home is None:
        return InternalError(message)
    return FamilyError(f"{message}\n{home / 'kernel.py'} makes it so; TILEWRIGHT_DEBUG=1 shows the traceback")


class Position(NamedTuple):
    """A place in a spec. Line and column count from 1, as editors do."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Problem(NamedTuple):
    """One fault of a spec and where it is."""

    position: Position
    message: str

    def __str__(self) -> str:
        return f"{self.position}: {self.message}"


class SpecError(UsageError):
    """Every fault found in the specs, in the order in which a reader meets them."""

    def __init__(self, problems: Iterable[Problem], more: int = 0) -> None:
        """`more` faults were found beside these."""
        self.problems = sorted(set(problems))
        self.consequence = ""
        """What a command that writes adds to their number."""
        self.more = more
        super().__init__("\n".join(map(str, self.problems)))

    def show(self, file: object = None) -> None:
        """Print each problem on a line that editors can jump to, then their number."""
        count = len(self.problems) + self.more
        click.echo(self.message, err=True)
        if self.more:
            click.echo(f"... and {self.more:,} more", err=True)
        click.echo(f"{count:,} problem{'' if count == 1 else 's'}{self.consequence}.", err=True)


class Problems:
    """Collects what is wrong with the specs, so that a person sees all of it at once.

    The first `MOST_FAULTS` of each file are kept, and the others counted.
    """

    def __init__(self) -> None:
        self._found: dict[str, set[Problem]] = {}
        self._added: dict[str, int] = {}
        self._more = 0

    def add(self, position: Position, message: Message) -> bool:
        """Note a fault and carry on. Answers whether it is kept."""
        found = self._found.setdefault(position.file, set())
        added = self._added[position.file] = self._added.get(position.file, 0) + 1
        # An alias repeats its faults: those are told once, and not compared for ever.
        kept = len(found) < MOST_FAULTS and added <= 3 * MOST_FAULTS
        if kept:
            found.add(Problem(position, message if isinstance(message, str) else message()))
        else:
            self._more += 1
        return kept

    def __len__(self) -> int:
        return sum(self._added.values())

    def raise_if_any(self) -> None:
        """Raise one `SpecError` that tells of every fault noted so far."""
        if self._found:
            raise SpecError((problem for found in self._found.values() for problem in found), self._more)
