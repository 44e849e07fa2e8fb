"""`tilewright generate`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import click

from tilewright.base import writing
from tilewright.compile.compilers import SUFFIXES
from tilewright.declarations.headers import COMMAND
from tilewright_generator import generation
from tilewright_generator.apply import apply
from tilewright_generator.cli import answers, common, github, plan_text, tuned_defaults
from tilewright_generator.cli.verbosity import comment, note, quiet
from tilewright_generator.errors import SpecError
from tilewright_generator.exclusive import exclusive
from tilewright_generator.plan import Change, FilePlan, Why
from tilewright_generator.plurals import are, counted
from tilewright_generator.project import Project

_SHOWN = 20  # files left alone that are printed


@click.command("generate")
@common.specs_argument
@common.root_option
@common.out_option
@common.filter_option
@click.option("--dry-run", is_flag=True, help="Print the plan and write nothing.")
@click.option("--diff", is_flag=True, help="Print what changes in each file.")
@click.option(
    "--force",
    is_flag=True,
    help="Also replace and remove files that were edited by hand or are not listed.",
)
@github.option
@answers.json_option
def command(
    *,
    specs: tuple[Path, ...],
    root: Path | None,
    out: Path | None,
    filters: tuple[str, ...],
    dry_run: bool,
    diff: bool,
    force: bool,
    output: str | None,
    as_json: bool,
) -> int:
    """Write the sources and dispatch tables of the specs (default: specs/*.yaml).

    Writes only files that change, and removes files that no spec generates any more. A file that was edited
    by hand is kept, and the exit code is 1. With --filter, only the sources of those kernels are written,
    beside the tables, and nothing is removed.
    """
    project = Project.find(root, out)
    folder = project.out
    writing.check(folder, project.root)
    # Specs are read while others are kept away, so that the last to write is not the first who read.
    with nullcontext() if dry_run else exclusive(folder, lambda: _say_waiting(folder)):
        try:
            with github.of_specs(project, output):
                inputs = common.read(project, specs, filters)
        except SpecError as error:
            error.consequence = "; nothing was written"
            raise
        plan = generation.make_plan(inputs.project, inputs.expansions, inputs.only, inputs.everything, force)
        differences = [*plan_text.diffs(plan)] if diff and not as_json else []
        if not dry_run:
            apply(plan)
        # Printed after the writes, which do not depend on a reader: `tilewright generate | head` writes, too.
        if as_json:
            answer = {"applied": not dry_run} | plan_text.as_json(plan, inputs.expansions)
            answers.print_json(answer)
        else:
            _print(plan, inputs, differences, asked=dry_run or diff or not quiet())
        if not dry_run:
            for path in generation.stale_headers(inputs.expansions):
                click.echo(
                    f"{plan_text.shown(path)}: its family declares other arguments; run: {COMMAND}", err=True
                )
            if not as_json and not quiet():
                _print_tuned(inputs.project, plan)
    return 1 if _in_the_way(plan) else 0


def _print_tuned(project: Project, plan: FilePlan) -> None:
    """How many problems of the tuned defaults have not seen what was added."""
    sources = (path for path, action in plan.actions() if action.change is Change.ADD)
    added = {Path(path).stem for path in sources if path.endswith(SUFFIXES)}
    for defaults in tuned_defaults.read(project):
        for line in defaults.of(added).lines():
            click.echo(line)


def _say_waiting(folder: Path) -> None:
    note(f"waiting for another `tilewright generate` that writes {plan_text.shown(folder)}")


def _in_the_way(plan: FilePlan) -> list[str]:
    return [kept.path for kept in plan.kept if kept.why is not Why.UNKNOWN]


def _print(plan: FilePlan, inputs: common.Inputs, differences: list[str], *, asked: bool) -> None:
    """Prints the differences and the plan; with -q the plan only if it was `asked` for."""
    for line in () if quiet() else plan_text.left_out(inputs.expansions, named=bool(plan.actions())):
        click.echo(line)
    for line in differences:
        click.echo(line)
    for line in plan_text.actions(plan) if asked else ():
        click.echo(line)
    for kept in plan.kept[:_SHOWN]:
        click.echo(f"kept {plan_text.shown(plan.folder / kept.path)}: {kept.why.value}", err=True)
    if len(plan.kept) > _SHOWN:
        click.echo(f"... and {len(plan.kept) - _SHOWN:,} more (--json lists all)", err=True)
    if _in_the_way(plan):
        click.echo("`tilewright generate --force` replaces or removes what stands in the way.", err=True)
    elif not plan.actions():
        kernels = sum(len(expansion.kernels) for expansion in inputs.expansions)
        modules = counted(len(inputs.expansions), "module")
        comment(f"nothing to do: {counted(kernels, 'kernel')} in {modules} {are(kernels)} as the specs say")
