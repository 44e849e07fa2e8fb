"""`--filter`: chooses kernels by name (`gemm_*_coop*`) or by field (`tile=128x*,256x128x64`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from re import Pattern, compile

from tilewright.base.spelling import did_you_mean, listed, text
from tilewright.declarations.table import KernelRecord
from tilewright.errors import ArgumentError

NOT = "~"  # before a negated term; unlike "!", a shell does not expand it in double quotes
SIDES = {"m_tile": 0, "n_tile": 1, "k_tile": 2}  # positions in `tile`, if a family has it
_ARCH = compile(r"sm_?(\d+)([af]?)")  # a target; without its last letter, all targets of the number

Lookup = Callable[[str], object]
"""A kernel's field by name; KeyError or AttributeError if its family does not have the field."""


@dataclass(frozen=True, slots=True)
class _Term:
    """One condition. `field` is empty if the condition is on the name."""

    field: str
    pattern: Pattern[str]
    negated: bool

    def holds(self, name: str, value: Lookup) -> bool:
        return self._matches(name, value) is not self.negated

    def _matches(self, name: str, value: Lookup) -> bool:
        """Whether the pattern matches. It does not match a field that the family lacks, so `~field=...`
        holds."""
        try:
            subject = text(_value(value, self.field)) if self.field else name
        except (AttributeError, KeyError):
            return False
        return self.pattern.fullmatch(subject) is not None


@dataclass(frozen=True, slots=True)
class Filter:
    """Terms, all of which a kernel must meet. Every kernel meets an empty filter."""

    terms: tuple[_Term, ...] = ()

    @classmethod
    def parse(cls, terms: Iterable[str], known: Iterable[str]) -> Filter:
        """Reads terms: a glob on names, or `field=glob[,glob...]` for a field in `known`; `~` before a term
        negates it. If `tile` is known, so are its sides: m_tile, n_tile and k_tile."""
        conditions, fields = [], set(known)
        fields |= set(SIDES) if "tile" in fields else set()
        for term in terms:
            negated, key, globs = _parts(term)
            if "=" in globs:
                raise ArgumentError(
                    f"--filter {term}", "a value holds no '='; repeat --filter for each field"
                )
            if key and key not in fields:
                hint = did_you_mean(key, fields) or f"; there are: {', '.join(sorted(fields))}"
                raise ArgumentError(f"--filter {term}", f"no field {key!r}{hint}")
            conditions.append(_Term(key, _any_of(key, globs), negated))
        return cls(tuple(conditions))

    def __bool__(self) -> bool:
        return bool(self.terms)

    def matches(self, name: str, value: Lookup) -> bool:
        """Whether the kernel called `name`, whose fields `value` looks up, meets every term."""
        return all(term.holds(name, value) for term in self.terms)


def fields_of(record: KernelRecord) -> dict[str, object]:
    """What terms may ask of a kernel: its target, its compiler and the fields of its configuration."""
    return {"arch": record.arch, "compiler": record.compiler, **record.config}


def taken(terms: Iterable[str], records: Sequence[KernelRecord]) -> list[KernelRecord]:
    """The kernels that meet all terms."""
    kernels = [(record, fields_of(record)) for record in records]
    only = Filter.parse(terms, {name for _, fields in kernels for name in fields})
    return [record for record, fields in kernels if only.matches(record.name, fields.__getitem__)]


def why_none(terms: Iterable[str], records: Sequence[KernelRecord]) -> str:
    """Hints for the terms that none of the kernels meets."""
    kernels = [fields_of(record) for record in records]
    return why_nothing(
        terms,
        [record.name for record in records],
        lambda name: (fields[name] for fields in kernels if name in fields),
    )


def why_nothing(terms: Iterable[str], names: Sequence[str], values: Callable[[str], Iterable[object]]) -> str:
    """Hints for the terms that no kernel meets. `values` returns the values of a field of all kernels."""
    hints = []
    for term in terms:
        negated, key, globs = _parts(term)
        if negated:
            continue
        if key:
            values_of_field = {text(_side(key, value)) for value in values("tile" if key in SIDES else key)}
            if not any(map(_any_of(key, globs).fullmatch, values_of_field)):
                meant = did_you_mean(globs, values_of_field) if globs.isidentifier() else ""
                hints.append(f"; {key} is one of: {listed(_sorted(values_of_field))}{meant}")
        elif not any(map(_any_of("", globs).fullmatch, names)):
            part = term.strip("*")
            if part and not set(part) & set("*?[,") and any(part in name for name in names):
                hints.append(f"; did you mean '*{part}*'?")
    return "".join(hints)


def _parts(term: str) -> tuple[bool, str, str]:
    """Whether a term is negated, its field (empty for a name) and its globs."""
    bare = term.removeprefix(NOT)
    key, equals, globs = bare.partition("=")
    return (bare != term, key, globs) if equals else (bare != term, "", bare)


def _value(value: Lookup, field: str) -> object:
    return _side(field, value("tile")) if field in SIDES else value(field)


def _side(field: str, value: object) -> object:
    """The side of a tile (a tuple, or a table's list) that the field names; for other fields, the value."""
    return value[SIDES[field]] if field in SIDES and isinstance(value, (tuple, list)) else value


def _sorted(values: Iterable[str]) -> list[str]:
    return sorted(values, key=lambda value: (int(value) if value.isdecimal() else 0, value))


def _any_of(field: str, globs: str) -> Pattern[str]:
    return compile("|".join(_pattern(field, glob.strip()) for glob in globs.split(",")))


def _pattern(field: str, glob: str) -> str:
    """A regular expression for a glob. A target may lack its underscore and its last letter: `sm103` means
    sm_103a, sm_103f and sm_103."""
    target = _ARCH.fullmatch(glob) if field == "arch" else None
    if target is None:
        return translate(glob)
    return f"sm_{target[1]}{target[2] or '[af]?'}"
