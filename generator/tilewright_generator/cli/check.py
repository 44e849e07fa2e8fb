"""`tilewright check`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from tilewright.declarations.headers import COMMAND
from tilewright_generator import __version__, generation
from tilewright_generator.cli import answers, common, github, plan_text, tuned_defaults
from tilewright_generator.cli.verbosity import comment, verbose
from tilewright_generator.plan import Change, FilePlan, Why
from tilewright_generator.plurals import are, counted
from tilewright_generator.project import Project

_WORDS = {
    Change.ADD: ("missing", "a spec makes it"),
    Change.CHANGE: ("changed", "the specs or the templates say otherwise"),
    Change.REMOVE: ("extra", "no spec makes it"),
}


class Drift(NamedTuple):
    """A file that is not what the specs say."""

    word: str
    """`missing`, `changed` or `extra`."""
    path: str
    why: str


@click.command("check")
@common.specs_argument
@common.root_option
@common.out_option
@common.filter_option
@click.option("--diff", is_flag=True, help="Print what `generate` would change in each file.")
@github.option
@answers.json_option
def command(
    *,
    specs: tuple[Path, ...],
    root: Path | None,
    out: Path | None,
    filters: tuple[str, ...],
    diff: bool,
    output: str | None,
    as_json: bool,
) -> int:
    """Compare the generated files with what the specs (default: specs/*.yaml) generate; write nothing.

    Exits with 1 if a file is changed, missing or extra, and says which command mends it. Also names tuned
    defaults whose kernels no longer exist and, with -v, those that were tuned before kernels were added;
    neither is a fault.
    """
    project = Project.find(root, out)
    with github.of_specs(project, output):
        inputs = common.read(project, specs, filters)
    plan = generation.make_plan(inputs.project, inputs.expansions, inputs.only, inputs.everything)
    headers = generation.stale_headers(inputs.expansions)
    drift = [
        *_drift(plan),
        *(Drift("changed", str(path), "the family declares other arguments") for path in headers),
    ]
    if github.asked(output):
        _annotate(plan, drift, headers)
    if as_json:
        answers.print_json(_answer(plan, inputs, drift))
        return 1 if drift else 0
    for line in plan_text.left_out(inputs.expansions):
        comment(line)
    for line in plan_text.diffs(plan) if diff else ():
        click.echo(line)
    for word, path, why in drift:
        click.echo(f"{click.style(f'{word:8}', fg='red')} {plan_text.shown(plan.folder / path)}: {why}")
    if not drift:
        _say_that_all_is_well(inputs)
        return 0
    for line in (*_made_by_others(plan, inputs.project), *_mend(plan, _repeat(specs, root, out, filters))):
        click.echo(line, err=True)
    if headers:
        click.echo(f"mend {counted(len(headers), 'header')} with: {COMMAND}", err=True)
    return 1


def _annotate(plan: FilePlan, drift: Sequence[Drift], headers: Sequence[Path]) -> None:
    """Annotates the files for GitHub Actions, each with the command that mends it."""
    stale = set(map(str, headers))
    github.drift(
        [
            (
                plan.folder / path,
                f"{word}: {why}; `{COMMAND if path in stale else 'tilewright generate'}` mends it",
            )
            for word, path, why in drift
        ]
    )


def _answer(plan: FilePlan, inputs: common.Inputs, drift: Sequence[Drift]) -> dict[str, Any]:
    """The answer as JSON."""
    other_templates = {
        module.name: module.other_templates for module in plan.modules if module.other_templates
    }
    left_out = {
        expansion.spec.module: len(expansion.rejected)
        for expansion in inputs.expansions
        if expansion.rejected
    }
    return {
        "drift": [{"drift": word, "path": path, "why": why} for word, path, why in drift],
        "other_templates": other_templates,
        "left_out": left_out,
        "tuned": [] if drift else [defaults.as_json() for defaults in tuned_defaults.read(inputs.project)],
    }


def _say_that_all_is_well(inputs: common.Inputs) -> None:
    kernels = sum(len(expansion.kernels) for expansion in inputs.expansions)
    modules = counted(len(inputs.expansions), "module")
    comment(f"{counted(kernels, 'kernel')} of {modules} {are(kernels)} as the specs say")
    for note in tuned_defaults.read(inputs.project):
        for line in note.notes(verbose()):
            comment(line)


def _drift(plan: FilePlan) -> Iterator[Drift]:
    for path, action in plan.actions():
        word, why = _WORDS[action.change]
        yield Drift(word, path, action.why or why)
    for kept in plan.kept:
        yield Drift("extra" if kept.data is None else "changed", kept.path, kept.why.value)


def _made_by_others(plan: FilePlan, project: Project) -> Iterator[str]:
    """Messages about modules whose files were made from other templates: who owns these, and so who has
    changed them."""
    for module in plan.modules:
        for name in module.other_templates:
            used = next((folder / name for folder in project.templates if (folder / name).is_file()), None)
            if used is not None and project.owns(used):
                yield f"{module.name}: {plan_text.shown(used)} has changed since the files were made from it"
            else:
                text = f"{module.name}: another version of tilewright made the files"
                yield f"{text}; this is {__version__}, whose template {name} is another"


def _mend(plan: FilePlan, options: str) -> Iterator[str]:
    edited = [kept for kept in plan.kept if kept.why not in (Why.UNKNOWN, Why.UNLISTED)]
    unlisted = [kept for kept in plan.kept if kept.why is Why.UNLISTED]
    unknown = [kept for kept in plan.kept if kept.why is Why.UNKNOWN]
    if actions := plan.actions():
        yield f"mend {counted(len(actions), 'file')} with: tilewright generate{options}"
    if edited:
        discard = f"discard the edits of {counted(len(edited), 'file')} with"
        yield f"{discard}: tilewright generate --force{options}"
    if unlisted:
        yield f"replace or remove {counted(len(unlisted), 'file')} with: tilewright generate --force{options}"
    if unknown:
        paths = shlex.join(str(plan_text.shown(plan.folder / kept.path)) for kept in unknown)
        yield f"remove by hand, or move elsewhere: {paths}"


def _repeat(specs: tuple[Path, ...], root: Path | None, out: Path | None, filters: tuple[str, ...]) -> str:
    """The options that a command needs to reach the same files."""
    words = [str(spec) for spec in specs]
    words += ["--root", str(root)] if root else []
    words += ["--out", str(out)] if out else []
    for term in filters:
        words += ["--filter", term]
    return f" {shlex.join(words)}" if words else ""
