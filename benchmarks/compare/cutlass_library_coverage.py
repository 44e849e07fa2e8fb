"""Compares the problem types of cutlass_library's default lists with the kernels here.

    python -m benchmarks.compare.cutlass_library_coverage [--write]

Needs the nvidia-cutlass wheel, whose Python package `cutlass_library` generates the lists. Without --write it
says whether benchmarks/results/cutlass_library.md is what wheel and tables yield, and exits with 1 if not.

A problem type is: kind of product, types of A and B, type of the sums, layouts, type of D. A column-major D
is counted as a row-major D of exchanged operands. Tiles, clusters, schedules, alignments and C are left out.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.architectures.routing import runs_on
from tilewright.declarations.table import KernelRecord, Table, read_tables
from tilewright.families.grouped_gemm.problem import MX_FORMATS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "benchmarks/results/cutlass_library.md"
COMMAND = "python -m benchmarks.compare.cutlass_library_coverage --write"
ARCHITECTURES = {90: (9, 0), 100: (10, 0), 103: (10, 3), 120: (12, 0)}  # a list's name: its GPUs
_TARGETS = "90a;100f;103a;120f"  # as cutlass_library spells targets
_CUDA = "13.0.0"

_KINDS = {  # of cutlass_library's GemmKind: what this page calls them
    "Universal3x": "dense",
    "BlockwiseUniversal3x": "blockwise",
    "BlockScaledUniversal3x": "block-scaled",
    "GroupedUniversal3x": "grouped",
    "GroupedBlockwiseUniversal3x": "grouped blockwise",
    "GroupedBlockScaledUniversal3x": "grouped block-scaled",
}
_FORMATS = {  # (element, type of its scales): the format's name here
    ("e2m1", "ue4m3"): "nvfp4",
    ("e2m1", "ue8m0"): "mxfp4",
    ("e2m3", "ue8m0"): "mxfp6_e2m3",
    ("e3m2", "ue8m0"): "mxfp6_e3m2",
    ("e4m3", "ue8m0"): "mxfp8",
    ("e5m2", "ue8m0"): "mxfp8_e5m2",
}
_RUN_TIME = ("f4", "f6", "f8")


class ProblemType(NamedTuple):
    """The types and the layout of a kernel's product."""

    kind: str
    a: str
    b: str
    sums: str
    layout: str  # of A and B, as BLAS writes them; D is row-major
    d: str


class Library(NamedTuple):
    """The default lists of cutlass_library."""

    release: str
    kernels: Mapping[int, Counter[ProblemType]]  # by architecture
    left_out: Mapping[str, Counter[int]]  # a reason: kernels by architecture


class Row(NamedTuple):
    """Problem types of cutlass_library that differ in A and B, in their layout and in D alone."""

    kind: str
    sums: str
    layouts: tuple[str, ...]
    results: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    kernels: int

    @property
    def types(self) -> frozenset[ProblemType]:
        return frozenset(
            ProblemType(self.kind, a, b, self.sums, layout, d)
            for a, b in self.pairs
            for layout in self.layouts
            for d in self.results
        )


def library() -> Library:
    """Runs the generator of the installed cutlass_library; writes no kernel."""
    from cutlass_library import generator, manifest  # noqa: PLC0415 (the page can be read without the wheel)

    options = generator.define_parser().parse_args(["--architectures", _TARGETS, "--cuda-version", _CUDA])
    kept = manifest.Manifest(options)
    for generate in (generator.GenerateSM90, generator.GenerateSM100, generator.GenerateSM120):
        generate(kept, _CUDA)
    kernels: dict[int, Counter[ProblemType]] = defaultdict(Counter)
    left_out: dict[str, Counter[int]] = defaultdict(Counter)
    for operation in kept.operations_by_name.values():
        architecture = operation.tile_description.minimum_compute_capability
        if reason := _left_out(operation):
            left_out[reason][architecture] += 1
        else:
            kernels[architecture][_type_of(operation)] += 1
    return Library(importlib.metadata.version("nvidia-cutlass"), kernels, left_out)


def _left_out(operation: Any) -> str:
    """Why there is to be no such kernel here; empty if there may be."""
    if (kind := operation.operation_kind.name) != "Gemm":
        return "convolutions" if kind.startswith("Conv") else "rank-k, rank-2k, SYMM and TRMM"
    if "Sparse" in operation.gemm_kind.name:
        return "2:4 sparse products"
    if operation.is_complex() or _name(operation.A.element) == "f64":
        return "F64 and complex products"
    if {_name(operation.A.element), _name(operation.B.element)} & {*_RUN_TIME}:
        return "types that a launch names (f4, f6, f8): each is a kernel here"
    return ""


def _type_of(operation: Any) -> ProblemType:
    kind = _KINDS[operation.gemm_kind.name]
    a, b, d = _name(operation.A.element), _name(operation.B.element), _name(operation.D.element)
    if "block-scaled" in kind:
        a = _FORMATS[a, _name(operation.ScaleFactorA)]
        b = _FORMATS[b, _name(operation.ScaleFactorB)]
        if (scale := _name(operation.ScaleFactorD.element)) != "void":
            block, usual = operation.ScaleFactorVectorSize, 16 if scale == "ue4m3" else 32
            d = _FORMATS[d, scale] if block == usual else f"{d} with {scale} for {block}"
    elif "blockwise" in kind:
        depth = operation.ScaleFactorKVecSize
        a = f"{a} {operation.ScaleFactorMVecSize}x{depth}"
        b = f"{b} {operation.ScaleFactorNVecSize}x{depth}"
    elif mode := operation.mixed_input_mode:
        kind = {"ConvertOnly": "mixed", "ScaleOnly": "mixed, scales"}.get(
            mode.name, "mixed, scales and zeros"
        )
    sums = _name(operation.accumulator_type())
    layout = operation.layout_name_3x()
    if a == b == "f32":
        a = b = "tf32"  # both stand for TF32 instructions, which read 32 bits
    if layout[2] == "n":
        a, b, layout = b, a, "".join({"t": "n", "n": "t"}[side] for side in (layout[1], layout[0]))
    return ProblemType(kind, a, b, sums, layout[:2], d)


def _name(element: Any) -> str:
    from cutlass_library.library import DataTypeNames  # noqa: PLC0415 (as above)

    return str(DataTypeNames[element])


def kernels_here(tables: Iterable[Table], architecture: int) -> frozenset[ProblemType]:
    """The problem types of the kernels here that run on an architecture's GPUs."""
    return frozenset(
        kind
        for table in tables
        for record in table.values()
        if runs_on(record.arch, ARCHITECTURES[architecture])
        for kind in _types_of(table.family, record)
    )


def _types_of(family: str, record: KernelRecord) -> Iterator[ProblemType]:
    config = record.config
    if family == "gemm":
        yield ProblemType("dense", config["a"], config["b"], config["acc"], config["layout"], config["d"])
    elif family == "blockscaled_gemm":
        yield ProblemType("block-scaled", config["a"], config["b"], "f32", "tn", config["d"])
    elif family == "blockscaled_grouped_gemm":
        yield ProblemType("grouped block-scaled", config["a"], config["b"], "f32", "tn", config["d"])
    elif family == "grouped_gemm":
        a, b, kinds = config["a"], config["b"], ["grouped"]
        if config["scales"] == "1x32_ue8m0":  # of both operands, in whatever layout
            a, b = MX_FORMATS[a], MX_FORMATS[b]
            kinds = ["block-scaled", "grouped block-scaled"]
        elif config["scales"] != "none":  # how rows are grouped, or that they are not, is an argument
            a, b = f"{a} 1x128", f"{b} {config['scales']}"
            kinds = ["blockwise", "grouped blockwise"]
        for kind in kinds:
            yield ProblemType(kind, a, b, "f32", config["layout"], config["d"])


def rows(kernels: Mapping[ProblemType, int]) -> list[Row]:
    """The problem types of an architecture, with what differs in A and B alone in one row."""
    by_pair: dict[tuple[str, str, str, str], set[tuple[str, str]]] = defaultdict(set)
    for kind in kernels:
        by_pair[kind.kind, kind.sums, kind.a, kind.b].add((kind.layout, kind.d))
    grouped: dict[tuple[str, str, frozenset[tuple[str, str]]], list[tuple[str, str]]] = defaultdict(list)
    for (kind, sums, a, b), cells in by_pair.items():
        grouped[kind, sums, frozenset(cells)].append((a, b))
    answer = []
    for (kind, sums, cells), pairs in grouped.items():
        # Layouts with one set of results are one row; others are rows of their own.
        results: dict[str, set[str]] = defaultdict(set)
        for layout, d in cells:
            results[layout].add(d)
        layouts: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for layout, types in results.items():
            layouts[tuple(sorted(types))].append(layout)
        for types_of_d, names in layouts.items():
            row = Row(kind, sums, tuple(sorted(names)), types_of_d, tuple(sorted(pairs)), 0)
            answer.append(row._replace(kernels=sum(kernels[problem] for problem in row.types)))
    return sorted(answer)


def cells(row: Row) -> list[str]:
    """The cells of the page for a row of cutlass_library's list."""
    pairs = ", ".join(f"{a} x {b}" for a, b in row.pairs)
    return [row.kind, pairs, row.sums, " ".join(row.layouts), ", ".join(row.results), f"{row.kernels:,}"]


def here(row: Row, ours: frozenset[ProblemType]) -> str:
    """The part of a row that our kernels compute, as text."""
    if row.types <= ours:
        return "all"
    words: dict[str, list[str]] = defaultdict(list)
    for kind in sorted(row.types & ours):
        words[f"{kind.a} x {kind.b} {kind.layout}"].append(kind.d)
    return "; ".join(f"{operands}: {', '.join(results)}" for operands, results in words.items()) or "none"


def stated(row: Row, text: str) -> frozenset[ProblemType]:
    """The problem types that a cell of `here` states."""
    if text == "all":
        return row.types
    answer = set()
    for part in text.split("; ") if text != "none" else ():
        operands, _, results = part.partition(": ")
        pair, _, layout = operands.rpartition(" ")
        a, _, b = pair.partition(" x ")
        answer |= {ProblemType(row.kind, a, b, row.sums, layout, d) for d in results.split(", ")}
    return frozenset(answer)


_HEAD = """\
# Problem types of cutlass_library

What the default lists of `cutlass_library` {release} (the nvidia-cutlass wheel) hold for SM90, SM100,
SM103 and SM120, and which of it the kernels here compute. This page is made by
`{command}`.

A problem type is a kind of product, the types of A and B, of the sums and of D, and the layouts of A and B
as BLAS writes them. A column-major D is counted as a row-major D of exchanged operands. Tiles, clusters,
schedules, alignments and C do not count. SM103's list is what it has besides SM100's, which runs there too.

The column *here* says `all`, or names operands, their layout and the types of D. `e4m3 1x128` is a type with
an FP32 scale for 1 row (of B: 1 column) by 128 of k. The lists scale an FP4 D by UE8M0, also in blocks of 16;
the kernels here write NVFP4, whose blocks of 16 have E4M3 scales. So no row has this D. Nor have the lists
all of a type that is here: on SM120 they have no block-scaled product with a D of BF16 or F16.
"""


def page(lists: Library, tables: Iterable[Table]) -> str:
    """The page's text."""
    tables = list(tables)
    lines = [_HEAD.format(release=lists.release, command=COMMAND)]
    lines += ["| list | kernels | left out on purpose | problem types | of them here |", "|---" * 5 + "|"]
    sections: list[str] = []
    for architecture, kernels in sorted(lists.kernels.items()):
        ours = kernels_here(tables, architecture)
        left = sum(counts[architecture] for counts in lists.left_out.values())
        counts = (sum(kernels.values()) + left, left, len(kernels), len(ours & kernels.keys()))
        lines.append(f"| SM{architecture} | {' | '.join(f'{count:,}' for count in counts)} |")
        sections += [f"## SM{architecture}", ""]
        sections += ["| kind | A x B | sums | layouts | D | kernels | here |", "|---" * 7 + "|"]
        sections += [f"| {' | '.join([*cells(row), here(row, ours)])} |" for row in rows(kernels)]
        sections.append("")
    sections += ["## Left out on purpose", "", _left_out_table(lists), ""]
    sections.append("[from_cutlass_library.md](../../docs/from_cutlass_library.md) says why.")
    return "\n".join([*lines, "", *sections, ""])


def _left_out_table(lists: Library) -> str:
    head = [f"SM{architecture}" for architecture in sorted(lists.kernels)]
    lines = [f"| kernels of | {' | '.join(head)} |", "|---" * (len(head) + 1) + "|"]
    for reason, counts in sorted(lists.left_out.items()):
        numbers = " | ".join(f"{counts[architecture]:,}" for architecture in sorted(lists.kernels))
        lines.append(f"| {reason} | {numbers} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/cutlass_library.md")
    options = parser.parse_args()
    text = page(library(), read_tables(ROOT / "generated"))
    if options.write:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == text:
        print(f"{PAGE.relative_to(ROOT)} is in step")
        return 0
    print(f"{PAGE.relative_to(ROOT)} is out of step; mend it with: {COMMAND}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
