"""`tilewright new-family`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from tilewright_generator import scaffold
from tilewright_generator.cli import answers
from tilewright_generator.cli.verbosity import note, quiet
from tilewright_generator.plurals import counted

NEXT = """\
next:
  cd {folder}
  python -m pip install --editable '.[test]'   # or, without pip: export PYTHONPATH=$PWD
  tilewright generate                          # specs/{name}.yaml -> generated/
  tilewright check
  tilewright build                             # with nvcc
  python -m pytest                             # on the CPU: every op's contract, and the op's numbers
Then change it into yours: docs/adding_a_family.md says what each file is for."""


@click.command("new-family")
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    help="The project's folder: a new one, or one that has families. Default: ./NAME.",
)
@click.option("--dry-run", is_flag=True, help="Name the files and write nothing.")
@answers.json_option
def command(*, name: str, into: Path | None, dry_run: bool, as_json: bool) -> None:
    """Write a complete, small family of kernels, which you change into your own.

    It is a plugin with a public op tilewright.NAME, its declaration, rules, cost model, CUDA template and
    header, reference and tests. It generates, builds and passes its tests as it is. No file is replaced.
    """
    scaffold.check_name(name)
    folder = Path(name) if into is None else into
    written, kept = scaffold.write(name, folder.absolute(), dry_run=dry_run)
    if as_json:
        answers.print_json({"family": name, "written": written, "kept": kept})
        return
    for path in kept:
        duty = ": it must package tilewright_families, too" if path.suffix == ".toml" else ""
        note(f"kept {path}{duty}")
    if dry_run:
        for path in written:
            click.echo(f"would write {folder / path.relative_to(folder.absolute())}")
        return
    click.echo(f"wrote {counted(len(written), 'file')} to {folder}/")
    if not quiet():
        click.echo(NEXT.format(folder=shlex.quote(str(folder)), name=name))
