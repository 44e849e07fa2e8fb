"""Counts the lines of what runs on the host, by family and for the core, now and at another revision.

    python benchmarks/host_lines.py [REVISION]

Python of a family: its op's package and the generator's. C++: what binds its kernels and its argument struct.
What calls the ops of several families has a row of its own (`contractions`: `tilewright.einsum`).
Files that a program writes (args.h, a model's weights) do not count. The core is what no family owns:
`interface/`, `ops/common/`, `equations.py`, what the generator's families share, and the common bindings.
Cost models have a column of their own.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BASE = "f03b129"  # before families were described once
_WRITTEN = "DO NOT EDIT"
_FAMILY = re.compile(
    r"runtime/tilewright/ops/(?P<ops>\w+)/(?P<cost>cost)?\w*\.py"
    r"|generator/tilewright_generator/families/(?P<generator>\w+)/\w+\.py"
    r"|runtime/include/tilewright/(?P<cpp>\w+)/(binding\.hpp|args\.h)"
)
_BETWEEN = re.compile(r"runtime/tilewright/(?P<ops>contractions)\.py")
_CORE = re.compile(
    r"runtime/tilewright/(?P<ops>interface/\w+|ops/common/\w+|ops/\w+|equations)\.py"
    r"|generator/tilewright_generator/families/(?P<generator>\w+)\.py"
    r"|runtime/include/tilewright/(?P<cpp>(matrix_)?binding\.hpp|launcher\.hpp|tactic\.h|adapter\.hpp)"
)
COLUMNS = ("ops", "cost", "generator", "cpp")
TITLES = ("op", "cost models", "generator", "C++", "all")


def files(revision: str) -> Iterator[tuple[str, str]]:
    """Paths and texts of the tracked files of a revision, or of the working tree ("")."""
    folders = ["runtime/tilewright", "runtime/include/tilewright", "generator/tilewright_generator"]
    listing = ["ls-tree", "-r", "--name-only", revision] if revision else ["ls-files"]
    for name in _git(*listing, "--", *folders).split():
        if any(kind.fullmatch(name) for kind in (_FAMILY, _BETWEEN, _CORE)):
            if revision:
                yield name, _git("show", f"{revision}:{name}")
            elif (ROOT / name).exists():
                yield name, (ROOT / name).read_text(encoding="utf-8")


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
    ).stdout


def count(revision: str = "") -> dict[str, Counter[str]]:
    """Lines by family ("core": of none) and column."""
    found: dict[str, Counter[str]] = {}
    for name, text in files(revision):
        match = _CORE.fullmatch(name)
        groups = (match or _FAMILY.fullmatch(name) or _BETWEEN.fullmatch(name)).groupdict()  # type: ignore[union-attr]
        column = next(one for one in ("generator", "cpp", "ops") if groups.get(one))
        family = "core" if match else groups[column]
        if groups.get("cost"):
            column = "cost"
        written = _WRITTEN in "".join(text.splitlines(keepends=True)[:3])
        found.setdefault(family, Counter())[column] += 0 if written else text.count("\n")
    return found


def table(base: str = BASE) -> str:
    """In Markdown: families that there were at `base`, those that are new, the core."""
    now, before = count(), count(base)
    old = [name for name in sorted(now) if name in before and name != "core"]
    new = [name for name in sorted(now) if name not in before]
    lines = [f"| lines | {' | '.join(TITLES)} | at {base} |", f"|---|{'---|' * (len(TITLES) + 1)}"]

    def row(title: str, counts: Counter[str], was: Counter[str] | None) -> None:
        cells = [f"{counts[column]:,}" for column in COLUMNS]
        told = f"{whole(was):,}" if was is not None else ""
        lines.append(f"| {title} | {' | '.join(cells)} | {whole(counts):,} | {told} |")

    for name in old:
        row(f"`{name}`", now[name], before[name])
    then, today = (sum((each[name] for name in old), Counter()) for each in (before, now))
    row("these together", today, then)
    for name in new:
        row(f"`{name}`", now[name], None)
    row("core", now["core"], before["core"])
    share = whole(today) / whole(then)
    return "\n".join(lines) + f"\n\nThe families of {base} have {share:.0%} of the lines that they had.\n"


def whole(counts: Counter[str]) -> int:
    return sum(counts[column] for column in COLUMNS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("revision", nargs="?", default=BASE, help=f"to compare with; default {BASE}")
    print(table(parser.parse_args().revision), end="")
