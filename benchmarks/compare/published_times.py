"""The cost models' times beside those that others measured on GPUs that were not at hand.

    python -m benchmarks.compare.published_times [--write]

Reads `benchmarks/shapes/published_times.yaml`. Estimates take the kernels that the measured project had:
CUTLASS's, without swapped operands. Each row is within 25 % of the measured time, or says why not.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import yaml
from benchmarks.lib.machine import RESULTS

from tilewright.architectures.device import B200, B300, RTX_PRO_6000, DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.families.blockscaled_gemm.cost_tcgen05 import is_ultra
from tilewright.families.blockscaled_gemm.family import FAMILY
from tilewright.families.blockscaled_gemm.problem import Problem
from tilewright.libraries.registry import Registry

DATA = RESULTS.parent / "shapes/published_times.yaml"
RECORD = RESULTS / "published_times.md"
TOLERANCE = 0.25  # of the measured time
COLUMNS = 8192  # n of 2303
# FlashInfer's loop does not clear L2. Operands that fill less of L2 than this come from there, several times
# as fast as from memory.
L2_SHARE, L2_SPEED = 0.9, 4
HEAD = """\
# Published times beside the cost models

Made by `python -m benchmarks.compare.published_times --write`: no GPU ran anything. Measured times are those
that FlashInfer's and DeepGEMM's pull requests state ([list](../shapes/published_times.yaml)). Estimates are
those of `blockscaled_gemm`'s models for NVFP4, with the kernels that were measured. A ratio is the measured
time over the model's: below 1 the model is slower.
"""
B300_HEAD = """
## FlashInfer 2303 on a B300

n is 8192. *sm_100*: without tiles of K 768. *With K 768*: the fastest of all. *Warm*: operands that fit into
L2 come from there. *Cold*: L2 is cleared, as `explain --problem` has it.

| k | m | measured, sm_100, us | warm | measured, with K 768, us | warm | cold | why cold is apart |
|---|---|---|---|---|---|---|---|"""
OTHERS_HEAD = """
## {title}

| m | n | k | measured, us | model, us | ratio |
|---|---|---|---|---|---|"""
TITLES = {
    "b200": "FlashInfer 2540 and 1979, DeepGEMM 348 on a B200",
    "sm120": "FlashInfer 2460 and 3026 on an RTX PRO 6000",
}
Keep = Callable[[KernelRecord], bool]


def unswapped(record: KernelRecord) -> bool:
    """A kernel of CUTLASS's, as the pull requests had them."""
    return not record.config["swap_ab"] and record.config["mainloop"] == "default"


def without_ultra(record: KernelRecord) -> bool:
    """One of sm_100's."""
    return unswapped(record) and not is_ultra(record)


def sm120(record: KernelRecord) -> bool:
    """One that 2460 had."""
    return unswapped(record) and not record.cutlass and record.config["schedule"] == "cooperative"


def before_2460(record: KernelRecord) -> bool:
    """The one tile that there was before 2460."""
    config = record.config
    return sm120(record) and config["tile"] == [128, 128, 128] and config["scheduler"] == "data_parallel"


def fits_l2(problem: Problem) -> bool:
    """Whether a B300 keeps the operands in L2 from launch to launch."""
    return problem.bytes < L2_SHARE * B300.l2_bytes


def warm(problem: Problem) -> DeviceProperties:
    """A B300 in a loop that does not clear L2."""
    bandwidth = B300.memory_bandwidth * (L2_SPEED if fits_l2(problem) else 1)
    return B300._replace(memory_bandwidth=bandwidth)


def seconds(registry: Registry, device: DeviceProperties, problem: Problem, keep: Keep) -> float:
    """The estimate of the fastest of some kernels."""
    records = registry.route("blockscaled_gemm", device)
    best = FAMILY.rank([record for record in records if keep(record)], problem, device)[0]
    assert best.estimate is not None
    return best.estimate.seconds


def b300_rows(registry: Registry, data: dict[str, Any]) -> Iterator[list[str]]:
    """Cells of the table of 2303."""
    for row in data["b300"]:
        problem = Problem(row["m"], COLUMNS, row["k"])
        before, after = (problem.flops / row[name] / 1e12 for name in ("before", "after"))
        cold = after / seconds(registry, B300, problem, unswapped)
        reason = ""
        if abs(cold - 1) > TOLERANCE:
            assert fits_l2(problem), row
            megabytes, read = problem.bytes / 1e6, problem.bytes / B300.memory_bandwidth * 1e6
            reason = f"2303 leaves {megabytes:.0f} MB in L2; memory alone takes {read:.1f} us for them"
        yield [
            str(row["k"]), str(row["m"]),
            f"{before * 1e6:.1f}", f"{before / seconds(registry, warm(problem), problem, without_ultra):.2f}",
            f"{after * 1e6:.1f}", f"{after / seconds(registry, warm(problem), problem, unswapped):.2f}",
            f"{cold:.2f}", reason,
        ]  # fmt: skip


def other_rows(registry: Registry, data: dict[str, Any], name: str) -> Iterator[list[str]]:
    """Cells of the table of other GPUs."""
    device = B200 if name == "b200" else RTX_PRO_6000
    for row in data[name]:
        keep = unswapped if name == "b200" else before_2460 if row.get("before") else sm120
        own = seconds(registry, device, Problem(row["m"], row["n"], row["k"]), keep) * 1e6
        cells = (row["m"], row["n"], row["k"], row["microseconds"])
        yield [*map(str, cells), f"{own:.1f}", f"{row['microseconds'] / own:.2f}"]


def page() -> str:
    """The text of the record."""
    data = yaml.safe_load(DATA.read_text(encoding="utf-8"))
    registry = Registry(libraries=lambda module: [])
    lines = [HEAD.rstrip("\n"), B300_HEAD, *table(b300_rows(registry, data))]
    for name, title in TITLES.items():
        lines += [OTHERS_HEAD.format(title=title), *table(other_rows(registry, data, name))]
    return "\n".join(lines) + "\n"


def table(rows: Iterator[list[str]]) -> Iterator[str]:
    """Lines of Markdown."""
    return (f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help=f"write {RECORD.name}")
    if parser.parse_args().write:
        RECORD.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
