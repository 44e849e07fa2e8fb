"""`hc_prenorm` on a GPU beside DeepGEMM's kernel and a copy of as many bytes.

    python -m benchmarks.compare.prenorm --output results/prenorm

For DeepGEMM's shapes and others, in the same run: the kernel that is selected, and (--kernels) every other;
DeepGEMM's `tf32_hc_prenorm_gemm` with as many splits, where it can be imported and takes n; a copy on the
device that moves as many bytes. All are CUDA graphs of calls that take operands in turn, so that L2 is cold,
medians of rounds in which the sides take turns. Each result of ours is checked first. Writes OUTPUT.md, after
each problem.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from benchmarks.lib import in_turn, machine
from benchmarks.lib.in_turn import replayed

from tilewright import context
from tilewright.architectures.device import driver
from tilewright.declarations.tactics import plain
from tilewright.families.hc_prenorm import measuring
from tilewright.families.hc_prenorm.family import FAMILY
from tilewright.families.hc_prenorm.problem import Problem
from tilewright.tools.measuring import checked, make_operands
from tilewright.tools.timing import Replays

try:
    import deep_gemm
except ImportError:
    deep_gemm = None

DEEP_GEMM = [
    (m, 24, k, splits) for m in (13, 137, 4096, 8192) for k in (28672, 7680, 7168) for splits in (1, 16)
]
OTHERS = [
    (1000, 24, 7168, 1), (1531, 24, 7168, 1), (2111, 24, 28672, 1), (3001, 24, 7680, 1), (6007, 24, 7168, 1),
    (6007, 24, 7168, 3), (12345, 24, 7168, 1), (4096, 8, 7168, 1), (4096, 32, 7168, 1), (4096, 64, 7168, 1),
    (4096, 128, 7168, 1),
]  # fmt: skip
DEEP_GEMM_COLUMNS = 32  # that its kernel takes on sm_90
ROUNDS = 7
CALLS = 16  # of a graph at least, so that its own launch does not count


def peer(operands: measuring.Operands) -> Callable[[], None] | None:
    """DeepGEMM's call with as many splits; None if DeepGEMM is not installed or has no such kernel."""
    problem = operands.problem
    if deep_gemm is None or problem.n > DEEP_GEMM_COLUMNS:
        return None
    splits = problem.splits if problem.splits > 1 else None
    return lambda: deep_gemm.tf32_hc_prenorm_gemm(
        operands.a, operands.b, operands.out, operands.squares, num_splits=splits
    )


def measure(problem: Problem, *, every: bool) -> dict[str, Any]:
    here = context.current()
    device = here.device(torch.cuda.current_device())
    operands = make_operands(measuring, problem, device)
    operands *= -(-CALLS // len(operands))
    selected = here.select(FAMILY, problem, device).tactic
    tactics = [selected]
    if every:
        fitting = FAMILY.fitting(here.registry.route(FAMILY.name, device), problem)
        tactics += [plain(record.name) for record in fitting if record.name != selected.kernel]
    sides: dict[str, Replays] = {}
    for tactic in tactics:
        checked(operands[0], tactic)
        sides[tactic.kernel] = Replays([functools.partial(operand.call, tactic) for operand in operands])
    peers = [peer(operand) for operand in operands]
    if peers[0] is not None:
        sides["deep_gemm"] = Replays([call for call in peers if call is not None])
    sides["copy"] = Replays([in_turn.copy_of(problem.bytes) for _ in operands])
    seconds = in_turn.medians({name: replayed(side) for name, side in sides.items()}, ROUNDS)
    return {
        "m": problem.m, "n": problem.n, "k": problem.k, "splits": problem.splits, "bytes": problem.bytes,
        "selected": selected.kernel, "ours": seconds[selected.kernel], "seconds": seconds,
    }  # fmt: skip


def markdown(head: dict[str, Any], rows: list[dict[str, Any]]) -> Iterator[str]:
    yield f"# hc_prenorm on {head['gpu']}"
    yield ""
    yield f"`{head['command']}`, driver {head['driver']}, torch {head['torch']}."
    yield "Ratios: the other's time over ours."
    yield ""
    yield "| m | n | k | splits | us | TB/s | of a copy | over DeepGEMM | kernel |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        ours, seconds = row["ours"], row["seconds"]
        over = f"{seconds['deep_gemm'] / ours:.2f}" if "deep_gemm" in seconds else ""
        rate, share = row["bytes"] / ours * 1e-12, seconds["copy"] / ours
        yield (
            f"| {row['m']} | {row['n']} | {row['k']} | {row['splits']} | {ours * 1e6:.1f} | {rate:.2f} "
            f"| {share:.0%} | {over} | `{row['selected'].removeprefix('hc_prenorm_')}` |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="path of the page, without extension")
    parser.add_argument("--kernels", action="store_true", help="time every kernel, beside the selected one")
    options = parser.parse_args()
    machine.require_gpu()
    head = {
        "gpu": torch.cuda.get_device_name(), "driver": driver(), "torch": torch.__version__,
        "command": "python -m benchmarks.compare.prenorm --output results/prenorm",
    }  # fmt: skip
    rows = []
    for extents in (*DEEP_GEMM, *OTHERS):
        rows.append(measure(Problem(*extents), every=options.kernels))
        print(list(markdown(head, rows))[-1], flush=True)
        machine.write_page(options.output, "\n".join(markdown(head, rows)) + "\n")


if __name__ == "__main__":
    main()
