"""`tilewright schema`."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import click

from tilewright.base import reading, writing
from tilewright_generator import families, schema
from tilewright_generator.cli import answers, common, completion
from tilewright_generator.cli.output_files import OutputFile, force_option
from tilewright_generator.errors import UsageError
from tilewright_generator.plurals import counted
from tilewright_generator.project import Project


@click.command("schema")
@click.argument(
    "names", nargs=-1, metavar="[FAMILY]...", shell_complete=completion.complete(completion.families)
)
@common.root_option
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a schema is not as it should be.")
@click.option("--print", "to_stdout", is_flag=True, help="Print the schemas instead.")
@force_option
@answers.json_option
def command(
    *, names: tuple[str, ...], root: Path | None, check: bool, to_stdout: bool, force: bool, as_json: bool
) -> int:
    """Write each family's JSON Schema to specs/schema/, for editors (default: all families)."""
    if check and to_stdout:
        raise UsageError("--check and --print exclude each other")
    chosen = [families.get(name) for name in names or families.names()]
    if to_stdout and as_json:
        answers.print_json({family.name: json.loads(schema.dumps(family)) for family in chosen})
        return 0
    if to_stdout:
        for family in chosen:
            click.echo(schema.dumps(family), nl=False)
        return 0
    project = Project.find(root)
    folder = project.schemas
    stale: list[Path] = []
    outputs: list[tuple[OutputFile, str]] = []
    for family in chosen:
        path, text = folder / schema.file_name(family), schema.dumps(family)
        writing.check(path, project.root)
        with suppress(FileNotFoundError):
            if reading.contents(path) == text.encode():
                continue
        stale.append(path)
        outputs.append((OutputFile(path, schema.MARK, force), text))
    if outputs and not check:
        folder.mkdir(parents=True, exist_ok=True)
        for output, _ in outputs:
            output.check()
        for output, text in outputs:
            output.write(text)
    for path in () if as_json else stale:
        mend = "is not as it should be; mend it with: tilewright schema"
        click.echo(f"{path} {mend}" if check else f"wrote {path}")
    if as_json:
        answers.print_json({"stale" if check else "written": stale, "schemas": len(chosen)})
    elif not stale:
        as_it_should = "is as it should be" if len(chosen) == 1 else "are as they should be"
        click.echo(f"nothing to do: {counted(len(chosen), 'schema')} {as_it_should}")
    return 1 if check and stale else 0
