"""Host time of a call: compat.deep_gemm's functions beside DeepGEMM's, in turn.

    python -m benchmarks.host.deepgemm_host [--output results/deepgemm_host.md]

Each function of both modules on the same operands, of which the GPU makes short work; scales lie as kernels
read them. A sample is the mean of 200 calls, enqueued one after the other; samples of both take turns, and
medians are compared. `torch.abs(out=)` says what a launch of torch's takes on this machine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from benchmarks.lib import machine
from benchmarks.lib.deepgemm_operands import by_blocks, by_rows, empty, random_matrix

from tilewright.compat import deep_gemm as ours

CALLS, SAMPLES = 200, 12
Call = Callable[[Any], Any]  # of a module


def calls() -> dict[str, Call]:
    """The calls that are timed, by what they compute."""
    m, n, k = 128, 4096, 7168
    a, b, d = by_rows(random_matrix(m, k)), by_blocks(random_matrix(n, k)), empty(m, n)
    x, y, z = random_matrix(128, 2048), random_matrix(2112, 2048), empty(128, 2112)
    rows, weights = by_rows(random_matrix(6, 64, 2048)), by_blocks(random_matrix(6, 1024, 2048))
    masked, counts = empty(6, 64, 1024), torch.full((6,), 20, device="cuda", dtype=torch.int32)
    joined, result = by_rows(random_matrix(768, 2048)), empty(768, 1024)
    index = torch.arange(6, device="cuda", dtype=torch.int32).repeat_interleave(128)
    many, many_weights = random_matrix(129, 128, 128), random_matrix(129, 384, 128)
    total = torch.zeros(128, 384, device="cuda")
    heads, of_heads, back = random_matrix(4, 8, 512), random_matrix(8, 128, 512), empty(4, 8, 128)
    return {
        "fp8_gemm_nt 128x4096x7168": lambda module: module.fp8_gemm_nt(a, b, d),
        "bf16_gemm_nt 128x2112x2048": lambda module: module.bf16_gemm_nt(x, y, z),
        "m_grouped_fp8_gemm_nt_masked 6x64x1024x2048": lambda module: module.m_grouped_fp8_gemm_nt_masked(
            rows, weights, masked, counts, 20
        ),
        "m_grouped_fp8_gemm_nt_contiguous 6x128x1024x2048": lambda module: (
            module.m_grouped_fp8_gemm_nt_contiguous(joined, weights, result, index, ensure_zero_padding=False)
        ),
        "einsum bmk,bnk->mn": lambda module: module.einsum("bmk,bnk->mn", many, many_weights, total, c=total),
        "einsum bhr,hdr->bhd": lambda module: module.einsum("bhr,hdr->bhd", heads, of_heads, back),
        "torch.abs(out=)": lambda module: torch.abs(z, out=z),
    }


def sample(call: Call, module: Any) -> float:
    """Microseconds of a call until it returns."""
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(CALLS):
        call(module)
    taken = (time.perf_counter() - started) / CALLS
    torch.cuda.synchronize()
    return taken * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, help="write the page there")
    output = parser.parse_args().output
    machine.require_gpu()
    import deep_gemm as theirs  # noqa: PLC0415 (--help works without it)

    lines = [
        "# Host time of a call: compat.deep_gemm beside DeepGEMM",
        "",
        f"`python -m benchmarks.host.deepgemm_host {' '.join(sys.argv[1:])}`; "
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, DeepGEMM {theirs.__version__}.",
        "",
        "| call | us | DeepGEMM's | share |",
        "|---|---|---|---|",
    ]
    for name, call in calls().items():
        for module in (ours, theirs):
            call(module)
        pairs = [(sample(call, ours), sample(call, theirs)) for _ in range(SAMPLES)]
        own, peer = (statistics.median(side) for side in zip(*pairs, strict=True))
        lines.append(f"| {name} | {own:.2f} | {peer:.2f} | {own / peer:.3f} |")
        print(lines[-1], flush=True)
        if output is not None:
            output.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
