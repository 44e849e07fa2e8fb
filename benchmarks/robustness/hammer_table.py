"""What the hammer (tests/gpu/test_hammer.py) found, by family, from the committed record of a GPU.

    python -m benchmarks.robustness.hammer_table [--record benchmarks/results/gpu/h200.json] [--write]

Counts the kernels whose runs are of their present machine code. `--write` writes
benchmarks/results/hammer.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tilewright_generator import records, status
from tilewright_generator.project import Project

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "benchmarks/results/hammer.md"
RECORD = ROOT / "benchmarks/results/gpu/h200.json"
_HEAD = """\
# The hammer

Written by `python -m benchmarks.robustness.hammer_table --write` from [{name}]({place}); do not
edit. Every kernel runs at least 2,000 times beside a stream that fills memory, on problems with one to three
stages of k, with whole and partial tiles in turn, each run into other pages of memory; every result is
compared to the bit (`tests/gpu/test_hammer.py`). Stale: runs of another machine code than the kernel's, which
are not counted.
[races.md](races.md) says what the hammer finds in kernels with known races.
"""


def rows(record: Mapping[str, Any], project: Project) -> Iterator[tuple[str, int, int, int, int, int]]:
    """For each family that has been hammered: its kernels, how many of them as they are now, those whose runs
    are stale, runs, and runs with wrong bits."""
    hammered = {row["name"] for row in record["kernels"] if "hammered" in row}
    tables = {table.module: table.family for table in status.tables(project)}
    families: dict[str, list[status.Verdict]] = {}
    for module, verdicts in status.verdicts(project):
        families.setdefault(tables[module], []).extend(each for each in verdicts if each.name in hammered)
    for family, verdicts in sorted(families.items()):
        now = [each.hammer for each in verdicts if each.hammered != status.STALE]
        runs, wrong = (sum(hammer[name] for hammer in now) for name in ("runs", "wrong"))
        if verdicts:
            yield family, len(verdicts), len(now), len(verdicts) - len(now), runs, wrong


def page(record: Mapping[str, Any], path: Path, project: Project) -> str:
    """The text of hammer.md."""
    table = list(rows(record, project))
    place = path.resolve().relative_to(PAGE.parent.resolve()).as_posix()
    lines = [_HEAD.format(name=path.name, place=place)]
    if not table:
        return "\n".join([*lines, "No kernel has been hammered yet.", ""])
    lines += ["| family | kernels hammered | as they are now | stale | runs | runs with wrong bits |"]
    lines += ["|---|---|---|---|---|---|"]
    total = ("**all**", *map(sum, list(zip(*table, strict=True))[1:]))
    lines += [
        "| " + " | ".join(f"{x:,}" if isinstance(x, int) else x for x in row) + " |"
        for row in (*table, total)
    ]
    dates = sorted({row["hammered"]["date"] for row in record["kernels"] if "hammered" in row})
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return "\n".join([*lines, "", f"{record['gpu']}, driver {record.get('driver', 'unknown')}, {days}.", ""])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", type=Path, default=RECORD, metavar="FILE", help="the record that is read")
    parser.add_argument("--write", action="store_true", help="Write benchmarks/results/hammer.md.")
    arguments = parser.parse_args()
    text = page(records.read(arguments.record), arguments.record, Project.find(ROOT))
    print(text)
    if arguments.write:
        PAGE.write_text(text, encoding="utf-8", newline="\n")
        print(f"wrote {PAGE}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
