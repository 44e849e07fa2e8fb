"""What each architecture costs the project, in files and lines.

    python -m benchmarks.host.architecture_cost [--write]

Counts for each architecture its kernels, the spec files that name it, the lines of their configurations, the
templates of its kernels, and the headers and programs that its sources include, directly or through others.
*Own* are those that no kernel of another architecture reaches. Comments and empty lines do not count.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tilewright.architectures.table import of_target
from tilewright_generator import generation
from tilewright_generator.project import Project

ROOT = Path(__file__).parents[2]
INCLUDE = ROOT / "runtime" / "include"
RECORD = ROOT / "benchmarks" / "results" / "architecture_cost.md"
_HEAD = """\
# What each architecture costs

Made by `python -m benchmarks.host.architecture_cost --write`. Lines are those of code and
configurations, without comments. *Own*: no kernel of another architecture reaches the file. sm_100 has the
targets sm_100a and sm_100f, which 10.3 and 10.7 run, too; sm_103 counts what has FP4 instructions of K 96
alone, sm_107 what has those of K 128. CUTLASS has the mainloops of most kernels of sm_100 to sm_110.

| architecture | kernels | specs | lines | templates | own | own lines | headers | own | own lines |"""
_REACHED = re.compile(
    r'#include "(tilewright/[^"]+)"|PROGRAM = "(tilewright/[^"]+)"|from tilewright_programs\.([\w.]+) import'
)
_COMMENT = {".py": ("#",), ".yaml": ("#",), ".hpp": ("//",), ".h": ("//",), ".j2": ("//", "{#", "#")}


@dataclass
class Cost:
    """Files that the kernels of an architecture are made of."""

    kernels: int = 0
    specs: set[Path] = field(default_factory=set)
    templates: set[Path] = field(default_factory=set)
    headers: set[Path] = field(default_factory=set)


@cache
def reached(path: Path) -> frozenset[Path]:
    """The headers and programs that a file includes, directly or through others."""
    direct = set()
    for header, program, module in _REACHED.findall(path.read_text(encoding="utf-8")):
        name = header or program or f"tilewright/{module.replace('.', '/')}.py"
        if (INCLUDE / name).is_file():
            direct.add(INCLUDE / name)
    return frozenset(direct.union(*(reached(header) for header in direct)))


def lines(path: Path) -> int:
    """Lines of a file without comments and empty ones."""
    starts = _COMMENT[path.suffix]
    text = path.read_text(encoding="utf-8").splitlines()
    return sum(1 for line in text if line.strip() and not line.strip().startswith(starts))


def costs(project: Project) -> dict[str, Cost]:
    """The cost of each architecture, by its name; 12.0 and 12.1 count together."""
    by_name: dict[str, Cost] = defaultdict(Cost)
    for expansion in generation.read(project, project.specs()):
        spec = expansion.spec
        folder = project.root / "generated" / spec.module
        sources = {path.stem: path for path in folder.iterdir() if path.suffix in (".cu", ".cc", ".py")}
        for kernel in expansion.kernels:
            cost = by_name[_name(kernel.config.arch)]
            cost.kernels += 1
            cost.specs.add(project.root / spec.path)
            cost.templates.add(project.root / "templates" / spec.family.template(kernel.config))
            cost.headers |= reached(sources[kernel.name])
    return dict(by_name)


def _name(target: str) -> str:
    major, minor = of_target(target).capability
    return "sm_12x" if major == 12 else f"sm_{major}{minor}"


def markdown(by_name: dict[str, Cost]) -> str:
    """The table."""
    text = [_HEAD, "|---" * 10 + "|"]
    for name, cost in sorted(by_name.items(), key=lambda pair: int(pair[0][3:].replace("x", "0"))):
        rest = [other for key, other in by_name.items() if key != name]
        templates = cost.templates - set().union(*(other.templates for other in rest))
        headers = cost.headers - set().union(*(other.headers for other in rest))
        numbers = (
            cost.kernels, len(cost.specs), sum(map(lines, cost.specs)), len(cost.templates), len(templates),
            sum(map(lines, templates)), len(cost.headers), len(headers), sum(map(lines, headers)),
        )  # fmt: skip
        text.append(f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} |")
    return "\n".join(text) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/architecture_cost.md")
    text = markdown(costs(Project.find(ROOT)))
    if parser.parse_args().write:
        RECORD.write_text(text, encoding="utf-8")
    print(text, end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
