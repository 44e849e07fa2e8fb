"""`tilewright explain`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from tilewright.compile.compilers import SUFFIXES
from tilewright_generator import describe, families, generation
from tilewright_generator.cli import answers, candidate_text, common, completion, other_sets
from tilewright_generator.cli.problem import explain_problem
from tilewright_generator.errors import UsageError
from tilewright_generator.expand import Expansion
from tilewright_generator.explain import Candidate, combination, made_of, matching, named, parse_terms
from tilewright_generator.plurals import counted
from tilewright_generator.project import Project
from tilewright_generator.spec import Spec


def _family_given(context: click.Context) -> str | None:
    """The family whose name stands on the command line, for a shell that completes its fields."""
    return next((word for word in context.params.get("what") or () if word in families.names()), None)


_complete_terms = completion.complete_terms(
    completion.families, completion.rules, completion.kernels, family=_family_given
)
_complete_problem = completion.complete_problem("what")


def _complete_what(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    complete = _complete_problem if context.params.get("problem") else _complete_terms
    return complete(context, parameter, incomplete)


@click.command("explain")
@click.argument(
    "what",
    nargs=-1,
    metavar="NAME | FAMILY | RULE | [FAMILY] FIELD=VALUE...",
    shell_complete=_complete_what,
)
@click.option(
    "--problem", is_flag=True, help="The words are a problem: say which tactic computes it, and why."
)
@click.option(
    "--device",
    type=common.DEVICE,
    help="The GPU that a problem is for. Default: this machine's, else h200.",
)
@click.option(
    "--spec",
    "specs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Look in this spec. Default: specs/*.yaml.",
)
@common.root_option
@answers.json_option
def command(
    *,
    what: tuple[str, ...],
    problem: bool,
    device: str | None,
    specs: tuple[Path, ...],
    root: Path | None,
    as_json: bool,
) -> None:
    """Say where a kernel comes from, or why a combination makes none; what a family or a rule is; which
    tactic computes a problem, and why.

    \b
    tilewright explain NAME, or a tactic: NAME@splits=4
        which line of which spec makes the kernel, what its fields mean
    tilewright explain tile=128x256x64 d=f32
        what becomes of the specs' combinations that have these
    tilewright explain FAMILY a=bf16 b=bf16 ...
        every rule that a combination breaks, in a spec or not
    tilewright explain FAMILY
        the family's fields and rules
    tilewright explain RULE
        what the rule demands, and what that rests on
    tilewright explain --problem FAMILY bf16 m=32 n=5120 k=25600
        which tactic computes it, and why; for another GPU: --device b200
    """
    if not what:
        listed = ", ".join(families.names())
        raise UsageError(f"expected a kernel's name, FIELD=VALUE..., a rule, or a family: {listed}")
    if problem:
        if specs:
            raise UsageError("--spec says nothing of a problem: it is computed by kernels that are generated")
        explain_problem(what, device, root, as_json)
        return
    if device is not None:
        raise UsageError("--device says for which GPU a --problem is")
    words = [_kernel(word) for word in what if _is_name(word)]
    terms = [word for word in what if not _is_name(word)]
    if words and _is_problem(words[0], terms):
        asked = " ".join(what)
        raise UsageError(
            f"{asked}: these are words of a problem; `tilewright explain --problem {asked}` says what "
            "computes it"
        )
    if len(words) > 1 or (words and terms and words[0] not in families.names()):
        raise UsageError(f"{' '.join(what)}: give a kernel's name, or a family and FIELD=VALUE...")
    if not terms and (_describe(words[0], as_json) or _explain_other(words[0], root, as_json)):
        return
    if terms and words:
        candidates = [_of_family(words[0], terms, root, specs)]
    elif terms:
        candidates = _in_specs(terms, _read(root, specs))
    else:
        candidates = [named(words[0], _read(root, specs))]
    if as_json:
        # What is near is looked for where one combination is asked about, as in the answer for people.
        near = candidates[0].neighbours() if len(candidates) == 1 else []
        answers.print_json([candidate_text.as_json(candidate, near) for candidate in candidates])
        return
    for line in candidate_text.lines(candidates):
        click.echo(line)


def _explain_other(name: str, root: Path | None, as_json: bool) -> bool:
    """Prints what another set's table says of a kernel, if one lists it and no table of the project does."""
    lines = other_sets.explained(name, Project.seen(root))
    if lines is None:
        return False
    if as_json:
        answers.print_json({"name": name, "text": lines[1:]})
    else:
        click.echo("\n".join(lines))
    return True


def _is_name(word: str) -> bool:
    """Whether it is no FIELD=VALUE: a name, or a tactic (`NAME@splits=4`)."""
    return "=" not in word or "@" in word.partition("=")[0]


def _kernel(word: str) -> str:
    """The kernel's name, where a tactic of it or its source is given. Raises ArgumentError for a setting that
    no tactic has."""
    from tilewright.declarations.tactics import Tactic  # noqa: PLC0415

    name = Tactic.parse(word).kernel
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


def _is_problem(word: str, terms: Sequence[str]) -> bool:
    """Whether these are a family and all extents of a size, which are fields of no kernel."""
    from tilewright.declarations import catalog  # noqa: PLC0415

    names = {term.partition("=")[0] for term in terms}
    return word in catalog.names() and names.issuperset(catalog.words_of(word).size)


def _describe(word: str, as_json: bool) -> bool:
    """Print what the family or the rule of this name is, if it is one; families may share a rule's name."""
    answer: Any
    if word in families.names():
        family = families.get(word)
        answer, lines = describe.family_json(family), list(describe.family_lines(family))
    elif rules := describe.find_rules(word):
        described = [describe.rule_json(*rule) for rule in rules]
        answer = described[0] if len(described) == 1 else described
        lines = [line for rule in rules for line in describe.rule_lines(*rule)]
    else:
        return False
    for line in [json.dumps(answer, indent=1)] if as_json else lines:
        click.echo(line)
    return True


def _read(root: Path | None, specs: tuple[Path, ...]) -> tuple[Expansion, ...]:
    """The specs without faults. A note names the others, which a question is rarely about."""
    project = Project.seen(root)
    sound, faults = generation.read_sound(project, project.chosen(specs))
    for file, count in Counter(fault.position.file for fault in faults).items():
        click.echo(f"left out {file}: {counted(count, 'problem')} (`tilewright check` says which)", err=True)
    return sound


def _of_family(name: str, terms: list[str], root: Path | None, specs: tuple[Path, ...]) -> Candidate:
    """The combination as the specs make it, else as it would be made."""
    family = families.get(name)
    answer = combination(family, parse_terms(family, terms))
    return made_of(answer.config, _read(root, specs)) or answer


def _in_specs(terms: list[str], expansions: Sequence[Expansion]) -> list[Candidate]:
    """The combinations of the specs that meet the terms, else the one that the first spec would make.

    Terms that mean nothing to a spec's family are about other specs; they are an error if they mean nothing
    to any.
    """
    candidates: list[Candidate] = []
    first: tuple[Spec, dict[str, Any]] | None = None
    errors: list[UsageError] = []
    for expansion in expansions:
        spec = expansion.spec
        try:
            conditions = parse_terms(spec.family, terms)
        except UsageError as error:
            errors.append(error)
            continue
        first = first or (spec, conditions)
        candidates += matching(expansion, conditions)
    if candidates:
        return candidates
    if first is None:
        raise errors[0]
    spec, conditions = first
    return [combination(spec.family, conditions, spec)]
