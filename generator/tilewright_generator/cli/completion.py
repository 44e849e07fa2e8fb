"""What a shell completes: modules, families, rules, kernels, fields and their values.

A completer reads specs' file names and dispatch tables, and never torch. It never fails either: a shell would
print the error into the line that somebody types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click
from click.shell_completion import BashComplete, CompletionItem, ZshComplete, add_completion_class

from tilewright.base.spelling import text
from tilewright.tools import filters

if TYPE_CHECKING:
    from tilewright.declarations.table import Table

Values = Callable[[click.Context], Iterable[str]]
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete(*sources: Values) -> Completer:
    """Completes a word with what any of these sources answers."""

    def completer(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [*_items(_words(sources, context), incomplete)]

    return completer


def complete_terms(*sources: Values, family: Callable[[click.Context], str | None]) -> Completer:
    """Completes `FIELD=VALUE`: a field, then its values; or, as long as there is no `=`, what the sources
    answer. `family`: whose fields they are; None for those of all kernels that the tables list."""

    def completer(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        negated = "~" if incomplete.startswith("~") else ""
        field, equals, _ = incomplete.removeprefix("~").partition("=")
        if equals:
            values = _caught(lambda: _values(family(context), field))
            return [*_items((f"{negated}{field}={value}" for value in values), incomplete)]
        fields = (f"{negated}{name}=" for name in _caught(lambda: _fields(family(context))))
        words = () if family(context) else _words(sources, context)
        return [*_items(fields, incomplete), *_items(words, incomplete)]

    return completer


def complete_problem(parameter_name: str) -> Completer:
    """Completes a problem as `explain --problem` takes it: a family, its types, then NAME=VALUE.

    `parameter_name`: the parameter that holds the words before.
    """

    def completer(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        words = context.params.get(parameter_name) or ()
        return [*_items(_caught(lambda: _problem_words(words, incomplete)), incomplete)]

    return completer


def modules(context: click.Context) -> Iterable[str]:
    """The modules of the project, by their specs."""
    from tilewright_generator.project import Project  # noqa: PLC0415 (a shell completes options without)

    return (path.stem for path in Project.seen(context.params.get("root")).specs())


def families(context: click.Context) -> Iterable[str]:
    """The names of all families."""
    from tilewright.declarations import catalog  # noqa: PLC0415

    return catalog.names()


def rules(context: click.Context) -> Iterable[str]:
    """The names of all families' rules."""
    from tilewright_generator import families  # noqa: PLC0415

    return (rule.name for name in families.names() for rule in families.get(name).rules)


def kernel_sets(context: click.Context) -> Iterable[str]:
    """The names of the sets in force; a folder that TILEWRIGHT_GENERATED names has its path."""
    from tilewright.base import sets  # noqa: PLC0415

    return (each.name for each in sets.in_force())


def targets(context: click.Context) -> Iterable[str]:
    """The targets of the kernels that the tables list."""
    return sorted({table.arch(name) for table in _tables(context) for name in table})


def kernels(context: click.Context) -> Iterable[str]:
    """The kernels that the tables list; of one family where it is a command of `tilewright run`."""
    tables = _tables(context)
    own = [table for table in tables if table.family == context.info_name]
    return (name for table in own or tables for name in table)


def _items(words: Iterable[str], incomplete: str) -> Iterator[CompletionItem]:
    return (CompletionItem(word) for word in dict.fromkeys(words) if word.startswith(incomplete))


def _words(sources: Iterable[Values], context: click.Context) -> Iterator[str]:
    for source in sources:
        yield from _caught(lambda source=source: source(context))  # type: ignore[misc]


def _caught(answer: Callable[[], Iterable[str]]) -> list[str]:
    try:
        return [*answer()]
    except Exception:
        return []


def _tables(context: click.Context | None = None) -> list[Table]:
    from tilewright.declarations.table import Table, find_tables  # noqa: PLC0415
    from tilewright_generator.project import tables_folder  # noqa: PLC0415

    root = None if context is None else context.params.get("root")
    return [Table.read(path) for path in find_tables(tables_folder(root))]


def _problem_words(words: Sequence[str], incomplete: str) -> Iterator[str]:
    from tilewright.declarations import catalog  # noqa: PLC0415
    from tilewright.declarations.vocabulary import Choice  # noqa: PLC0415

    if not words or words[0] not in catalog.names():
        yield from catalog.names()
        return
    vocabulary = catalog.words_of(words[0])
    name, equals, _ = incomplete.partition("=")
    if not equals:
        yield from (f"{part.name}=" for part in (*vocabulary.extents, *vocabulary.others))
        yield from (types for types, fields in vocabulary.types.fields.items() if not isinstance(fields, str))
        return
    types = next((word for word in words[1:] if "=" not in word), None)
    for word in vocabulary.others:
        if word.name == name:
            fields = vocabulary.types.read(types)
            values = word.possible(fields) if isinstance(word, Choice) else ("true", "false")
            yield from (f"{name}={value}" for value in values)


def _fields(family: str | None) -> Iterable[str]:
    from tilewright_generator.families import get  # noqa: PLC0415
    from tilewright_generator.fields import fields_of  # noqa: PLC0415

    if family is not None:
        return fields_of(get(family))
    fields = [fields_of(get(name)) for name in dict.fromkeys(table.family for table in _tables())]
    return [*filters.SIDES, "compiler", *(name for family_fields in fields for name in family_fields)]


def _values(family: str | None, field: str) -> Iterable[str]:
    """The words that a field may be, and the values that kernels have."""
    from tilewright_generator.families import get  # noqa: PLC0415
    from tilewright_generator.fields import fields_of  # noqa: PLC0415

    kinds = () if family is None else fields_of(get(family))[field].kinds
    records = [record for table in _tables() if family in (None, table.family) for record in table.values()]
    used = {text(fields[field]) for record in records if field in (fields := filters.fields_of(record))}
    return [*(word for kind in kinds for word in kind.words()), *sorted(used, key=_numerically)]


def _numerically(word: str) -> list[tuple[int, str]]:
    return [(int(part) if part.isdigit() else 0, part) for part in word.split("x")]


TERMS = complete_terms(kernels, family=lambda _: None)  # of `--filter`


class _Bash(BashComplete):
    """Bash divides words at `=`: `tile=128` are three of its words. Here they are one again, and what bash
    inserts is what follows the last `=`."""

    source_template = BashComplete.source_template.replace(
        "COMPREPLY+=($value)", "COMPREPLY+=($value)\n            [[ $value == *= ]] && compopt -o nospace"
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        words, incomplete = super().get_completion_args()
        joined: list[str] = []
        for word in [*words, incomplete]:
            goes_on = joined and (word == "=" or joined[-1].endswith("=")) and not joined[-1].startswith("-")
            joined[-1:] = [joined[-1] + word] if goes_on else [*joined[-1:], word]
        return joined[:-1], joined[-1]

    def format_completion(self, item: CompletionItem) -> str:
        *_, rest = str(item.value).rpartition("=")
        return f"{item.type},{rest or item.value}"


class _Zsh(ZshComplete):
    """As click's, but a field is followed by its value, and not by a space."""

    source_template = ZshComplete.source_template.replace(
        "        compadd -U -V unsorted -a completions",
        "        local -a fields=(${(M)completions:#*=})\n"
        "        completions=(${completions:#*=})\n"
        "        compadd -U -S '' -V fields -a fields\n"
        "        compadd -U -V unsorted -a completions",
    )


def set_up() -> None:
    """Lets click complete for bash and zsh as this module says."""
    add_completion_class(_Bash, "bash")
    add_completion_class(_Zsh, "zsh")
