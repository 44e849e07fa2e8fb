"""`-q` and `-v`, which every command takes, before its name or after: how much is said on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from tilewright_generator.errors import UsageError

_KEY = f"{__name__}.level"  # in the context's meta: -1 quiet, 0, 1 info, 2 debug
_LEVELS = {-1: "ERROR", 1: "INFO", 2: "DEBUG"}
_before: list[
    tuple[int, list[Any]]
] = []  # the log's level and handlers, each time that an option changed them


@contextmanager
def restored() -> Iterator[None]:
    """Restores the log's level and handlers, because a program that runs a command in its own process has its
    own. A context's callback would not do: click skips it if a command line is wrong."""
    earlier = len(_before)
    try:
        yield
    finally:
        if len(_before) > earlier:
            from tilewright.base import logs  # noqa: PLC0415 (as below)

            level, logs.log.handlers[:] = _before[earlier]
            logs.log.setLevel(level)
            del _before[earlier:]


def quiet() -> bool:
    """Whether progress and notes are to be left out; what was asked for, and errors, are always said."""
    context = click.get_current_context(silent=True)
    return context is not None and context.meta.get(_KEY, 0) < 0


def verbose() -> bool:
    """Whether -v asks for more than what was asked for."""
    context = click.get_current_context(silent=True)
    return context is not None and context.meta.get(_KEY, 0) > 0


def comment(text: str) -> None:
    """Prints something besides the answer on stdout; `-q` leaves it out."""
    if not quiet():
        click.echo(text)


def note(text: str) -> None:
    """Says something on stderr that is not what was asked for; `-q` leaves it out."""
    if not quiet():
        click.echo(text, err=True)


def add_options(command: click.Command) -> click.Command:
    """Gives a command `-q` and `-v`, unless it has them."""
    if not any(parameter.name == "quiet" for parameter in command.params):
        command.params += [
            click.Option(
                ["-q", "--quiet"], is_flag=True, expose_value=False, callback=_set_quiet,
                help="Print only the answer and errors.",
            ),
            click.Option(
                ["-v", "--verbose"], count=True, expose_value=False, callback=_set_verbose,
                help="Log to stderr what takes time; -vv: every decision.",
            ),
        ]  # fmt: skip
    return command


def _set_quiet(context: click.Context, option: click.Parameter, quiet: bool) -> None:
    if quiet:
        _set(context, -1)


def _set_verbose(context: click.Context, option: click.Parameter, count: int) -> None:
    if count:
        _set(context, min(count, 2))


def _set(context: click.Context, level: int) -> None:
    from tilewright.base import logs  # noqa: PLC0415 (3 ms, and most calls need none)

    if context.meta.get(_KEY, level) * level < 0:
        raise UsageError("-q and -v exclude each other; give one of them")
    context.meta[_KEY] = level
    _before.append((logs.log.level, list(logs.log.handlers)))
    if level > 0 and not logs.log.handlers:  # else TILEWRIGHT_LOG has said where to
        logs.set_up(_LEVELS[level].lower())
    logs.log.setLevel(_LEVELS[level])
