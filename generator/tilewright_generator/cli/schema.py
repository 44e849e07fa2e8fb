"""`tilewright schema`."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright_generator import families, schema
from tilewright_generator.cli import common
from tilewright_generator.project import Project
from tilewright_generator.words import counted


@click.command("schema")
@click.argument("names", nargs=-1, metavar="[FAMILY]...")
@common.root_option
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a schema is not as it should be.")
@click.option("--print", "to_stdout", is_flag=True, help="Print the schemas instead.")
def command(*, names: tuple[str, ...], root: Path | None, check: bool, to_stdout: bool) -> int:
    """Write each family's JSON Schema to specs/schema/, for editors (default: all families)."""
    found = [families.get(name) for name in names or families.names()]
    if to_stdout:
        for family in found:
            click.echo(schema.dumps(family), nl=False)
        return 0
    folder = Project.find(root).schemas
    stale = 0
    for family in found:
        path, text = folder / schema.file_name(family), schema.dumps(family)
        if path.is_file() and path.read_bytes() == text.encode():
            continue
        stale += 1
        if check:
            click.echo(f"{path} is not as it should be; mend it with: tilewright schema")
        else:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            click.echo(f"wrote {path}")
    if not stale:
        as_it_should = "is as it should be" if len(found) == 1 else "are as they should be"
        click.echo(f"nothing to do: {counted(len(found), 'schema')} {as_it_should}")
    return 1 if check and stale else 0
