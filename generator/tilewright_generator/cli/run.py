"""`tilewright run <family> ...`: run a kernel on this machine's GPU, checked and timed beside its peer."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import click

from tilewright_generator import families


class _Families(click.Group):
    """A family that can be run has a module `run` with a click command named `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in families.names() if find_spec(f"{families.__name__}.{name}.run")]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"{families.__name__}.{cmd_name}.run").command
        return command


@click.group(cls=_Families)
def command() -> None:
    """Run a kernel on this machine's GPU: pick it (or take one), build it if need be, check its result
    against float64 and time it beside torch's, L2 cold."""
