"""What can go wrong, each kind with the exit code that the command line answers with.

0 fine, 1 drift or a failed check, 2 usage or a wrong spec, 3 an internal error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import click

from tilewright import plugins


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
    return FamilyError(
        f"{message}\n{home / 'generator.py'} makes it so; TILEWRIGHT_DEBUG=1 shows the traceback"
    )


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

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = sorted(set(problems))
        self.consequence = ""
        """What a command that writes adds to their number."""
        super().__init__("\n".join(map(str, self.problems)))

    def show(self, file: object = None) -> None:
        """Print each problem on a line that editors can jump to, then their number."""
        count = len(self.problems)
        click.echo(self.message, err=True)
        click.echo(f"{count} problem{'' if count == 1 else 's'}{self.consequence}.", err=True)


class Problems:
    """Collects what is wrong with the specs, so that a person sees all of it at once."""

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def add(self, position: Position, message: str) -> None:
        """Note a fault and carry on."""
        self._found.append(Problem(position, message))

    def __len__(self) -> int:
        return len(self._found)

    def raise_if_any(self) -> None:
        """Raise one `SpecError` that holds every fault noted so far."""
        if self._found:
            raise SpecError(self._found)
