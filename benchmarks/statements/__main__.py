"""Makes docs/statements.md of the statements.

    python -m benchmarks.statements [--write]

Without --write it says whether the page is what the data yield, and exits with 1 where it is not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.statements.data import STATUSES, Row, Statements, read_all

PAGE = Path(__file__).parents[2] / "docs" / "statements.md"
_HEAD = """\
# What pull requests of other projects state

Tilewright began with five pull requests to FlashInfer and DeepGEMM. Their statements stand here, and so do
DeepGEMM's functions on SM100, each with what tilewright does of it, and the command, test or record that
shows it. No Blackwell GPU has run tilewright's kernels yet; *met* means that the kernels and functions exist,
are compiled and checked.

A command stands without its first word, tilewright. `python -m benchmarks.statements --write` makes this page
of `benchmarks/statements/*.yaml`; a test runs the commands and looks for what they must say.
"""


def page(files: Sequence[Statements]) -> str:
    """The page's text."""
    return "\n".join(
        [_HEAD, *_summary(files), *(line for statements in files for line in _section(statements))]
    )


def _summary(files: Sequence[Statements]) -> Iterator[str]:
    yield f"| statements of | {' | '.join(STATUSES.values())} |"
    yield "|---" * (len(STATUSES) + 1) + "|"
    for statements in files:
        counts = " | ".join(str(count) for count in statements.counts().values())
        yield f"| [{statements.title}](#{_anchor(statements.title)}) | {counts} |"
    totals = [sum(statements.counts()[status] for statements in files) for status in STATUSES]
    yield f"| all {sum(totals)} | {' | '.join(map(str, totals))} |"
    yield ""


def _section(statements: Statements) -> Iterator[str]:
    yield f"## {statements.title}"
    yield ""
    yield f"[{statements.source}]({statements.url}). {statements.about.strip()}"
    yield ""
    yield "| | statement | status | shown by | |"
    yield "|---|---|---|---|---|"
    for number, row in enumerate(statements.rows, 1):
        cells = [str(number), row.statement, STATUSES[row.status], _proof(row), row.reason.strip()]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _proof(row: Row) -> str:
    if row.run:
        return f"`{row.run}`"
    path, _, function = row.test.partition("::")
    return f"[{function or Path(path).name}](../{path})"


def _anchor(title: str) -> str:
    """GitHub's name of a heading."""
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the page")
    text = page(read_all())
    if parser.parse_args().write:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE.name} is out of step; mend it with: python -m benchmarks.statements --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
