"""Rules of a family: what is legal, and whose limit that is.

A rule is a function of a configuration that answers None, or the reason with its numbers:

    # sm90_gemm_tma_warpspecialized_pingpong.hpp: "Ping-pong kernel does not currently support stream-K".
    @rule(cutlass("4.2"), "scheduler schedule")
    def stream_k_schedule(config: GemmConfig) -> str | None:
        \"""Stream-K needs the cooperative schedule.\"""

The docstring is what it demands, the comment above it what that rests on. With `of` it is asked of some
kernels alone: those with a mainloop of ours, of one architecture; with `unless`, what it says of those that
other rules reject is not said.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

Config = TypeVar("Config")


class Limit(NamedTuple):
    """Whose limit a rule is, and so what would lift it: another GPU, another release, or we ourselves."""

    whose: str


HARDWARE = Limit("the hardware's")
OURS = Limit("ours")
"""The hardware and CUTLASS would take it: no kernel here does, or we choose not to."""


def cutlass(release: str) -> Limit:
    """A limit of CUTLASS in this release; another may have lifted it."""
    return Limit(f"CUTLASS {release}'s")


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One statement of what is legal."""

    name: str
    check: Callable[[Any], str | None]
    """None for a legal configuration, else the reason, with its numbers."""
    limit: Limit
    fields: tuple[str, ...]
    """The fields that the rule compares, the likeliest mistake first: an error points to the first of them
    that a group sets itself."""
    compiles: str
    """Why what it rejects is refused although it compiles; empty where it does not compile."""
    of: Callable[[Any], bool]
    """Whether the rule applies to a configuration."""
    unless: tuple[Rule, ...]
    """Rules with a better message: if one of them also rejects a configuration, this rule reports nothing.
    Its check still runs, so it must handle such configurations."""

    def __call__(self, config: Any) -> str | None:
        """Ask it, of any configuration."""
        reason = self.check(config) if self.of(config) else None
        return None if reason is None or self.said_better(config) else reason

    def said_better(self, config: Any) -> bool:
        """Whether a rule of `unless` also rejects the configuration."""
        return any(rule(config) for rule in self.unless)

    @property
    def statement(self) -> str:
        """The demand: the first paragraph of the docstring, on one line."""
        return " ".join((self.check.__doc__ or "").strip().split("\n\n")[0].split())

    @property
    def basis(self) -> str:
        """The source of the rule: the comment above its function, on one line."""
        lines = (inspect.getcomments(self.check) or "").splitlines()
        return " ".join(line.lstrip("# ").rstrip() for line in lines)


def among(what: str, value: object, legal: Sequence[object]) -> str | None:
    """None for one of the legal values, else the reason."""
    if value in legal:
        return None
    *most, last = map(str, legal)
    return f"{what} is {', '.join(most)}{' or ' * bool(most)}{last}, not {value}"


def unsettled(config: object, kernels: str, settled: Mapping[str, object]) -> str | None:
    """None if all fields have the values that `settled` demands of `kernels`, else a reason."""
    reasons = []
    for field, value in settled.items():
        if (actual := getattr(config, field)) != value:
            expected, shown = (str(word).lower() for word in (value, actual))
            reasons.append(f"{field} of {kernels} is {expected}, not {shown}")
    return "; ".join(reasons) or None


def of_module(name: str) -> tuple[Rule, ...]:
    """The rules that a module makes, in its order."""
    values = vars(sys.modules[name]).values()
    return tuple(rule for rule in values if isinstance(rule, Rule) and rule.check.__module__ == name)


def _all(config: Any) -> bool:
    return True


def rule(
    limit: Limit,
    fields: str,
    compiles: str = "",
    *,
    of: Callable[[Any], bool] = _all,
    unless: tuple[Rule, ...] = (),
) -> Callable[[Callable[[Config], str | None]], Rule]:
    """Makes a rule of a function; `fields` are names with spaces between."""

    def made(check: Callable[[Config], str | None]) -> Rule:
        return Rule(check.__name__, check, limit, tuple(fields.split()), compiles, of, unless)

    return made
