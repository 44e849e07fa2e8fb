"""Counts the lines of what runs on the host: by package of the runtime, by family, and for the generator.

    python -m benchmarks.host.host_lines [REVISION]

Python lines count as they stand, with docstrings and blank lines. C++ is what runs on the host: a family's
binding, and the core's launching code. Files that a program writes (args.h, a model's weights) do not count.
The last row has the same sums at REVISION, whose packages may have had other names.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BASE = "f46e896d"  # before the runtime's packages were layers
_WRITTEN = "DO NOT EDIT"
_PLACE = re.compile(
    r"(?P<runtime>runtime/tilewright)/(families/(?P<family>\w+)/(?P<cost>cost)?|(?P<room>\w+)/|)[\w/]*\.py"
    r"|(?P<generator>generator/tilewright_generator)/[\w/]+\.py"
    r"|(?P<cpp>runtime/include/tilewright)/((?P<bound>\w+)/binding\.hpp"
    r"|((matrix_)?binding|launcher|adapter|launch|host)\.hpp|tactic\.h)"
)
TOOLS = ("contract", "tools")  # what serving never imports
COLUMNS = ("python", "cost", "cpp")
TITLES = ("Python", "cost models", "C++")


def files(revision: str = "") -> Iterator[tuple[str, str]]:
    """Paths and texts of the tracked files of a revision, or of the working tree ("")."""
    folders = ["runtime/tilewright", "runtime/include/tilewright", "generator/tilewright_generator"]
    listing = ["ls-tree", "-r", "--name-only", revision] if revision else ["ls-files"]
    for name in _git(*listing, "--", *folders).split():
        if _PLACE.fullmatch(name):
            if revision:
                yield name, _git("show", f"{revision}:{name}")
            elif (ROOT / name).exists():
                yield name, (ROOT / name).read_text(encoding="utf-8")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def count(revision: str = "") -> dict[str, Counter[str]]:
    """Lines by row and column. Rows: `family NAME`, a package of the runtime ("facade": its own modules),
    "C++" for the core's, "generator"."""
    lines: dict[str, Counter[str]] = {}
    for name, text in files(revision):
        match = _PLACE.fullmatch(name)
        assert match is not None
        family = match["family"] or match["bound"]
        row = f"family {family}" if family else match["room"] or ("generator" if match["generator"] else "")
        row = row or ("C++" if match["cpp"] else "facade")
        column = "cpp" if match["cpp"] else "cost" if match["cost"] else "python"
        written = _WRITTEN in "".join(text.splitlines(keepends=True)[:3])
        lines.setdefault(row, Counter())[column] += 0 if written else text.count("\n")
    return lines


def runtime(lines: dict[str, Counter[str]]) -> Counter[str]:
    """The runtime without its tools."""
    return sum((counts for row, counts in lines.items() if row not in (*TOOLS, "generator")), Counter())


def tools(lines: dict[str, Counter[str]]) -> Counter[str]:
    """What serving never imports."""
    return sum((lines.get(row, Counter()) for row in TOOLS), Counter())


def table(base: str = BASE) -> str:
    """In Markdown."""
    now, then = count(), count(base)
    rows = [f"| lines | {' | '.join(TITLES)} |", f"|---|{'---|' * len(TITLES)}"]

    def add(title: str, counts: Counter[str]) -> None:
        rows.append(f"| {title} | {' | '.join(f'{counts[column]:,}' for column in COLUMNS)} |")

    for row in sorted(now, key=lambda row: (row.startswith("family"), row)):
        add(row, now[row])
    add("**runtime without tools**", runtime(now))
    add("**runtime**", runtime(now) + tools(now))
    add("**generator**", now["generator"])
    add(f"runtime at {base}", runtime(then) + tools(then))
    add(f"generator at {base}", then["generator"])
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("revision", nargs="?", default=BASE, help=f"to compare with; default {BASE}")
    print(table(parser.parse_args().revision), end="")
