"""`tilewright init`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from tilewright.declarations import catalog
from tilewright_generator import families, new_files, project_start
from tilewright_generator.cli import answers
from tilewright_generator.cli.completion import complete
from tilewright_generator.cli.verbosity import note, quiet
from tilewright_generator.errors import UsageError

NEXT = """\
next:{folder}
  tilewright generate       # specs/{module}.yaml -> generated/
  tilewright check          # what CI and the hook run
  tilewright build          # with nvcc
  {git}git add . && pre-commit install"""


@click.command("init")
@click.argument("folder", metavar="[DIR]", default=".", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--spec",
    metavar="NAME",
    shell_complete=complete(lambda _: project_start.shipped_specs()),
    help="Begin with a copy of this spec, which comes with tilewright, such as sm90_gemm_lean.",
)
@click.option(
    "--family",
    metavar="FAMILY",
    shell_complete=complete(lambda _: families.names()),
    help=f"Begin with a spec of a few kernels of this family. Default: {catalog.default_name()}.",
)
@click.option("--dry-run", is_flag=True, help="Name the files and write nothing.")
@answers.json_option
def command(*, folder: Path, spec: str | None, family: str | None, dry_run: bool, as_json: bool) -> None:
    """Start a repository of kernels in DIR (default: the current folder): a spec, a check for GitHub's CI, a
    hook for pre-commit, .gitattributes, .gitignore, README.md.

    `tilewright generate`, `check` and `build` then work at once. Existing files are kept, so that `init
    --spec NAME` or `init --family FAMILY` adds a spec to an existing repository.
    """
    target = folder.absolute()
    if spec is None and family is None:
        _check_without_specs(target)
    first = project_start.first_spec(spec, family)
    texts = project_start.files(target.resolve().name, first)
    own = f"specs/{first.module}.yaml"
    outcome = new_files.write(
        texts,
        target,
        may_stay=texts.keys() - {own},
        instead="edit it, or start elsewhere: tilewright init DIR",
        dry_run=dry_run,
    )
    if as_json:
        answers.print_json({"module": first.module, "written": outcome.written, "kept": outcome.kept})
        return
    for path in outcome.kept:
        note(f"kept {path.relative_to(target)}")
    for path in outcome.written:
        click.echo(f"{'would write' if dry_run else 'wrote'} {folder / path.relative_to(target)}")
    if not quiet() and not dry_run:
        enter = "" if target == Path.cwd() else f"\n  cd {shlex.quote(str(folder))}"
        git = "" if any((place / ".git").exists() for place in (target, *target.parents)) else "git init && "
        click.echo(NEXT.format(folder=enter, module=first.module, git=git))


def _check_without_specs(target: Path) -> None:
    """Raises UsageError if a repository has specs, to which a default one would be added."""
    for spec in sorted((target / "specs").glob("*.yaml")):
        raise UsageError(
            f"{target} has specs already, such as {spec.name}, and nothing was written; "
            "--spec or --family names a spec to add"
        )
