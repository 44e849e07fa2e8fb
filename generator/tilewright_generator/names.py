"""Kernel names: C identifiers, file names, and never the same twice."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from functools import partial

from tilewright.base.spelling import text
from tilewright_generator.errors import Faults, mistake
from tilewright_generator.expand import Expansion, Kernel

# A file name of 255 bytes with room for suffixes. Lower case alone: some file systems fold case.
_NAME = re.compile(r"[a-z][a-z0-9_]{0,199}")


def check(expansions: Iterable[Expansion], faults: Faults) -> None:
    """Report names made twice, once for each pair of groups that does it."""
    first: dict[str, Kernel] = {}
    repeats: dict[tuple[int, int], list[tuple[Kernel, Kernel]]] = {}
    for expansion in expansions:
        for kernel in expansion.kernels:
            if not _NAME.fullmatch(kernel.name):
                family = expansion.spec.family.name
                raise mistake(family, f"{family} makes the name {kernel.name!r}: not a C identifier")
            earlier = first.setdefault(kernel.name, kernel)
            if earlier is not kernel:
                repeats.setdefault((id(earlier.group), id(kernel.group)), []).append((earlier, kernel))
    for pairs in repeats.values():
        earlier, kernel = pairs[0]
        faults.add(kernel.group.position, partial(_repeated, earlier, kernel, len(pairs)))


def _repeated(earlier: Kernel, kernel: Kernel, count: int) -> str:
    place = f"the group at {earlier.group.position}" if earlier.group is not kernel.group else "this group"
    more = f" and {count - 1} more" if count > 1 else ""
    message = f"makes {kernel.name}{more} again; {place} makes it already"
    ours, theirs = (dataclasses.asdict(own.config) for own in (kernel, earlier))
    different = [
        f"{name} {text(theirs[name])} / {text(ours[name])}" for name in ours if ours[name] != theirs[name]
    ]
    return f"{message}, with {', '.join(different)}, which the name does not show" if different else message
