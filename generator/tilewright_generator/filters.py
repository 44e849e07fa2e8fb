"""`--filter`: choosing kernels by name (`gemm_*_coop*`) or by field (`tile=128x*,256x128x64`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from re import Pattern, compile

from tilewright_generator.errors import UsageError, did_you_mean
from tilewright_generator.fields import text
from tilewright_generator.words import listed


@dataclass(frozen=True, slots=True)
class Filter:
    """Terms that a kernel must all meet. An empty filter takes every kernel."""

    names: tuple[Pattern[str], ...] = ()
    fields: tuple[tuple[str, Pattern[str]], ...] = ()

    @classmethod
    def parse(cls, terms: Iterable[str], known: Iterable[str]) -> Filter:
        """Read terms: a glob on names, or `field=glob[,glob...]` for a field in `known`."""
        names, fields, fields_known = [], [], sorted(set(known))
        for term in terms:
            key, equals, globs = term.partition("=")
            if "=" in globs:
                raise UsageError(f"--filter {term}: a value holds no '='; repeat --filter for each field")
            if not equals:
                names.append(_any_of(term))
            elif key in fields_known:
                fields.append((key, _any_of(globs)))
            else:
                hint = did_you_mean(key, fields_known) or f"; there are: {', '.join(fields_known)}"
                raise UsageError(f"--filter {term}: no field {key!r}{hint}")
        return cls(tuple(names), tuple(fields))

    def __bool__(self) -> bool:
        return bool(self.names or self.fields)

    def matches(self, name: str, value: Callable[[str], object]) -> bool:
        """Whether the kernel called `name`, whose fields `value` looks up, meets every term.

        A field that the kernel's family has not meets no term: `value` raises KeyError or AttributeError.
        """
        if not all(pattern.fullmatch(name) for pattern in self.names):
            return False
        try:
            return all(pattern.fullmatch(text(value(key))) for key, pattern in self.fields)
        except (AttributeError, KeyError):
            return False


def why_nothing(terms: Iterable[str], names: Sequence[str], values: Callable[[str], Iterable[object]]) -> str:
    """What there is instead, for each term that no kernel meets; `values` gives a field's, of all kernels."""
    hints = []
    for term in terms:
        key, equals, globs = term.partition("=")
        if equals:
            there = sorted({text(value) for value in values(key)})
            if not any(map(_any_of(globs).fullmatch, there)):
                hints.append(f"; {key} is one of: {listed(there)}")
        elif not set(term) & set("*?[,") and term not in names and any(term in name for name in names):
            hints.append(f"; did you mean '*{term}*'?")
    return "".join(hints)


def _any_of(globs: str) -> Pattern[str]:
    return compile("|".join(translate(glob.strip()) for glob in globs.split(",")))
