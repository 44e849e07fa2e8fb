"""`tilewright list`."""

from __future__ import annotations

import json
from operator import attrgetter
from pathlib import Path
from typing import Any

import click

from tilewright_generator.cli import common
from tilewright_generator.expand import Expansion, Kernel
from tilewright_generator.fields import fields_of
from tilewright_generator.module import selects
from tilewright_generator.words import counted


@click.command("list")
@common.specs_argument
@common.root_option
@common.filter_option
@click.option("--long", "-l", is_flag=True, help="Say of each kernel what it is.")
@common.json_option
def command(
    *, specs: tuple[Path, ...], root: Path | None, filters: tuple[str, ...], long: bool, as_json: bool
) -> None:
    """List the kernels that the specs name (default: specs/*.yaml)."""
    inputs = common.read(root, None, specs, filters)
    found = [
        (expansion, [kernel for kernel in expansion.kernels if selects(inputs.only, kernel)])
        for expansion in inputs.expansions
    ]
    if as_json:
        rows = [_row(expansion, kernel) for expansion, kernels in found for kernel in kernels]
        click.echo(json.dumps(rows, indent=1))
        return
    for expansion, kernels in found:
        if kernels:
            click.echo(f"{expansion.spec.module}: {counted(len(kernels), 'kernel')}")
        for kernel in sorted(kernels, key=attrgetter("name")):
            click.echo(f"  {kernel.name}")
            if long:
                click.echo(f"      {expansion.spec.family.summary(kernel.config)}")


def _row(expansion: Expansion, kernel: Kernel) -> dict[str, Any]:
    family = expansion.spec.family
    return {
        "name": kernel.name,
        "module": expansion.spec.module,
        "family": family.name,
        "position": str(kernel.group.position),
        "summary": family.summary(kernel.config),
        "config": {name: getattr(kernel.config, name) for name in fields_of(family)},
        "facts": family.facts(kernel.config),
    }
