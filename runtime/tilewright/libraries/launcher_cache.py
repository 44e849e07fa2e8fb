"""Launchers of earlier calls, found without the key of a plan.

The key of a plan holds how every operand lies, and to make it takes half of a warm call's host time. A
launcher compares all of that itself, in C++. So a call first tries the launchers that are kept under a short
key (the op, its options, the shape of one operand), and makes the plan's key only where none of them takes
its operands.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from tilewright.libraries.library import MOST_OPERANDS, UNPLANNED, Launcher, Library


class CachedLaunchers:
    """The launchers of one short key: their calls differ only in how operands lie."""

    __slots__ = ("launch", "launchers", "layouts_seen", "plan", "used")
    MOST = 8  # launchers; each that is tried in vain costs 40 ns

    def __init__(self, plan: Any = None) -> None:
        """`plan`: says what a result is, where calls of this key leave it to the op to make one."""
        self.launch: Launcher = _unplanned
        self.launchers: list[Launcher] = []
        self.plan = plan
        self.layouts_seen = 0  # with those for which there is no launcher
        self.used = False  # since the context last looked for something to forget

    def add(self, launcher: Launcher | None, library: Library | None = None) -> None:
        """Adds the launcher of one more layout; None where a launch is not all that such calls need.

        `library`: a library whose code tries the launchers, where all of them are its kind of object and none
        is a function of Python.
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
    """The status of the first launcher that was made for operands which lie as the call's do."""
    status = UNPLANNED
    for launch in launchers:
        status = launch(*call)
        if not UNPLANNED >= status > UNPLANNED - MOST_OPERANDS:
            break
    return status
