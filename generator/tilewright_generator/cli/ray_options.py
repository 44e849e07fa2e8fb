"""--ray and --ray-address, which `tune` and `build` take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def ray_options(what: str) -> Callable[[Command], Command]:
    """Adds both; `what` says what Ray does. The address is a parameter of its own: an option whose value may
    be left out takes the argument that follows for it."""

    def add(command: Command) -> Command:
        address = click.option(
            "--ray-address",
            metavar="ADDRESS",
            help="The address of a Ray cluster; implies --ray. Default: as Ray finds it.",
        )
        return click.option("--ray", is_flag=True, help=what)(address(command))

    return add
