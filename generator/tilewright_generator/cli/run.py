"""`tilewright run <family> ...`: run a kernel on this machine's GPU, checked and timed beside its peer."""

from __future__ import annotations

from importlib import import_module

import click

from tilewright_generator import families
from tilewright_generator.cli import verbosity


class _Families(click.Group):
    """The families that say how they are run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in families.names() if families.get(name).run]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = families.get(cmd_name).run if cmd_name in families.names() else None
        if module is None:
            return None
        command: click.Command = import_module(module).command
        return verbosity.add_options(command)


@click.group(cls=_Families)
def command() -> None:
    """Run a kernel on this machine's GPU: pick it (or take one), build it if need be, check its result
    against float64 and time it beside torch's, L2 cold."""
