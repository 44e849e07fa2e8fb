"""Host time of a tilewright.gemm call beside torch.mm(out=), 16x256x256 BF16, no CUDA graph.

    python benchmarks/host_overhead.py [--json]

A batch of calls is enqueued and timed until the last has been accepted, not until it has run: the GPU
keeps up, because its kernels are shorter than the host's calls. The two take turns, batch by batch, and the
medians are compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import tilewright

CALLS = 400  # a batch; fewer than the driver queues before it blocks
BATCHES = 60


def batch_seconds(call: Callable[[], Any]) -> float:
    """Seconds of host time a call."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    seconds = (time.perf_counter() - start) / CALLS
    torch.cuda.synchronize()
    return seconds


def gpu_seconds(call: Callable[[], Any]) -> float:
    """Seconds of the GPU a call, to see that it is not what is measured."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    graph.replay()
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e-3 / CALLS


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--shape", default="16x256x256", metavar="MxNxK")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("this benchmark needs a GPU", file=sys.stderr)
        return 1
    m, n, k = map(int, arguments.shape.split("x"))
    a = torch.randn(m, k, device="cuda").bfloat16()
    b = torch.randn(n, k, device="cuda").bfloat16().t()
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    calls: dict[str, Callable[[], Any]] = {
        "torch.mm(out=)": lambda: torch.mm(a, b, out=out),
        "tilewright.gemm(out=)": lambda: tilewright.gemm(a, b, out=out),
        "torch.mm": lambda: torch.mm(a, b),
        "tilewright.gemm": lambda: tilewright.gemm(a, b),
    }
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        batch_seconds(call)
    for _ in range(BATCHES):
        for name, call in calls.items():
            samples[name].append(batch_seconds(call))
    medians = {name: statistics.median(values) for name, values in samples.items()}
    ratio = medians["tilewright.gemm(out=)"] / medians["torch.mm(out=)"]
    result = {
        "shape": arguments.shape,
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "host_us": {name: seconds * 1e6 for name, seconds in medians.items()},
        "gpu_us": {
            name: gpu_seconds(calls[name]) * 1e6 for name in ("torch.mm(out=)", "tilewright.gemm(out=)")
        },
        "ratio": ratio,
    }
    if arguments.json:
        print(json.dumps(result, indent=1))
    else:
        for name, seconds in medians.items():
            print(f"{name:<24} {seconds * 1e6:7.2f} us")
        print(f"ratio {ratio:.3f} (tilewright.gemm(out=) over torch.mm(out=); lower is better)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
