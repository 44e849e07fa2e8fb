"""Counts the lines of what runs on the host: by package of the runtime and by family, and for the generator.

    python -m benchmarks.host.host_lines [REVISION]

Python lines count as they stand, with docstrings and blank lines. Files that a program writes (args.h, a
model's weights) do not count. The columns say who imports a module (`benchmarks/lib/import_graph.py`):

    call        a call of an op whose kernel is built
    build       a build besides, ahead of time or because a call needs a kernel
    bundle      a process that serves a bundle besides
    generator   the generator asks it about kernels: rules, shared memory, sources
    DeepGEMM    `tilewright.compat`
    tools       nobody of these: tuning, benchmarking, doctor, references, the contract suite

C++ is what runs on the host: a family's binding, and the core's launching code. The last rows are the sums at
REVISION, whose packages may have had other names.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.lib import import_graph

ROOT = Path(__file__).resolve().parents[2]
BASE = "f46e896d"  # before the runtime's packages were layers
RUNTIME, GENERATOR = "runtime/tilewright", "generator/tilewright_generator"
HEADERS = "runtime/include/tilewright"
COLUMNS = ("call", "build", "bundle", "generator", "DeepGEMM", "tools")
_WRITTEN = "DO NOT EDIT"
_CPP = re.compile(
    rf"{HEADERS}/((?P<family>\w+)/binding\.hpp|((matrix_)?binding|launcher|adapter|launch|host)\.hpp|tactic\.h)"
)


def lines_of(text: str) -> int:
    """The lines of a file; none if a program writes it."""
    return 0 if _WRITTEN in "".join(text.splitlines(keepends=True)[:3]) else text.count("\n")


def count() -> dict[str, Counter[str]]:
    """Lines of the runtime by row and column. Rows: `family NAME`, a package of the runtime ("facade": its
    own modules)."""
    paths = import_graph.modules({"tilewright": ROOT / "runtime"})
    importers = {
        "call": import_graph.served(paths),
        "build": import_graph.built(paths),
        "bundle": import_graph.bundled(paths),
        "generator": import_graph.generated(paths),
        "DeepGEMM": {name for name in paths if name.startswith("tilewright.compat")},
    }
    rows: dict[str, Counter[str]] = {}
    for name, path in paths.items():
        column = next((title for title, modules in importers.items() if name in modules), "tools")
        lines = lines_of(path.read_text(encoding="utf-8"))
        rows.setdefault(row_of(name, path), Counter())[column] += lines
    return rows


def row_of(name: str, path: Path) -> str:
    """The row of a module."""
    _, *parts = name.split(".")
    if parts[:1] == ["families"]:
        return f"family {parts[1]}" if parts[1:] else "families"
    return parts[0] if len(parts) > 1 or (parts and path.name == "__init__.py") else "facade"


def cpp(revision: str = "") -> int:
    """The lines of C++ at a revision, or in the working tree ("")."""
    return sum(lines_of(text) for _, text in files(HEADERS, _CPP, revision))


def python(folder: str, revision: str = "") -> int:
    """The lines of Python below a folder at a revision, or in the working tree ("")."""
    return sum(lines_of(text) for _, text in files(folder, re.compile(r".*\.py"), revision))


def files(folder: str, names: re.Pattern[str], revision: str) -> Iterator[tuple[str, str]]:
    """Paths and texts of the tracked files below a folder, at a revision, or in the working tree ("")."""
    listing = ["ls-tree", "-r", "--name-only", revision] if revision else ["ls-files"]
    for name in filter(names.fullmatch, _git(*listing, "--", folder).split()):
        if revision:
            yield name, _git("show", f"{revision}:{name}")
        elif (ROOT / name).exists():
            yield name, (ROOT / name).read_text(encoding="utf-8")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def table(base: str = BASE) -> str:
    """The lines as a Markdown table."""
    rows = count()
    lines = [f"| lines | {' | '.join(COLUMNS)} |", f"|---|{'---|' * len(COLUMNS)}"]

    def add(title: str, counts: Counter[str]) -> None:
        lines.append(f"| {title} | {' | '.join(f'{counts[column]:,}' for column in COLUMNS)} |")

    for row in sorted(rows, key=lambda row: (row.startswith("family"), row)):
        add(row, rows[row])
    add("**runtime**", sum(rows.values(), Counter()))
    lines += ["", f"| lines | now | at {base} |", "|---|---|---|"]
    for title, folder in (("runtime", RUNTIME), ("generator", GENERATOR)):
        lines.append(f"| {title} | {python(folder):,} | {python(folder, base):,} |")
    lines.append(f"| C++ of the host | {cpp():,} | {cpp(base):,} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("revision", nargs="?", default=BASE, help=f"to compare with; default {BASE}")
    print(table(parser.parse_args().revision), end="")
