"""Launchers of earlier calls, found without the key of a plan.

The key of a plan holds the layout of every operand, and making it takes half of a warm call's host time. A
launcher compares all layouts itself, in C++. So a call first tries the launchers that are kept under a short
key (the op, its options, the shape of one operand), and makes the plan's key only if none of them takes its
operands.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.libraries.library import MOST_OPERANDS, UNPLANNED, Launcher, Library


class CachedLaunchers:
    """The launchers of one short key: their calls differ only in the operands' layouts."""

    __slots__ = ("launch", "launchers", "layouts_seen", "plan", "recheck", "used")
    MOST = 8  # launchers; each failed attempt costs 40 ns

    def __init__(self, plan: Any = None) -> None:
        """`plan`: describes the result that calls of this key leave to the op to make."""
        self.launch: Launcher = _unplanned
        self.launchers: list[Launcher] = []
        self.plan = plan
        self.recheck: Callable[..., None] | None = None
        """A check of a call's numbers, before its launch; raises if it refuses them."""
        self.layouts_seen = 0  # including layouts without a launcher
        self.used = False  # since the context last looked for entries to forget

    def add(self, launcher: Launcher | None, library: Library | None = None) -> None:
        """Adds the launcher of one more layout; None if its calls need more than a launch.

        `library`: a library whose code tries the launchers, if none of them is a function of Python.
        """
        self.layouts_seen += 1
        if launcher is None or len(self.launchers) == self.MOST:
            return
        self.launchers.append(launcher)
        if len(self.launchers) == 1:
            self.launch = launcher
        elif library is not None:
            self.launch = library.first_planned(self.launchers)
        else:
            self.launch = functools.partial(_in_turn, self.launchers)


def _unplanned(*call: Any) -> int:
    return UNPLANNED


def _in_turn(launchers: Sequence[Launcher], *call: Any) -> int:
    """The status of the first launcher that was made for the layouts of the call's operands."""
    status = UNPLANNED
    for launch in launchers:
        status = launch(*call)
        if not UNPLANNED >= status > UNPLANNED - MOST_OPERANDS:
            break
    return status
