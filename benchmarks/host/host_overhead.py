"""Host time of a call beside torch's own, 16x256x256, no CUDA graph.

    python -m benchmarks.host.host_overhead [--json] [--out FILE]

BF16: torch.mm(out=) beside tilewright.gemm(out=), the op through torch's dispatcher
(torch.ops.tilewright.gemm_out) and a plan (tilewright.plan); each of these also when it allocates D. FP8:
torch._scaled_mm beside the same. Quantising beside torch.abs(out=). A batch of calls is timed until the last
call has been enqueued, not until it has run; the GPU keeps up, because its kernels are shorter than the
host's calls. The sides take turns, batch by batch, and the medians are compared. The driver's own time for a
launch is measured with an empty kernel in a loop of C++ (launch_floor.cu).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from benchmarks.lib import machine

import tilewright
from tilewright.compile.nvcc.toolchain import find_toolchain

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


Calls = dict[str, Callable[[], Any]]


def bf16_calls(m: int, n: int, k: int) -> Calls:
    a = torch.randn(m, k, device="cuda").bfloat16()
    b = torch.randn(n, k, device="cuda").bfloat16().t()
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    plan = tilewright.plan(tilewright.gemm, a, b, out=out)
    gemm = tilewright.gemm
    return {
        "torch.mm(out=)": lambda: torch.mm(a, b, out=out),
        "tilewright.gemm(out=)": lambda: gemm(a, b, out=out),
        "plan(a, b, out)": lambda: plan(a, b, out),
        "torch.mm": lambda: torch.mm(a, b),
        "tilewright.gemm": lambda: gemm(a, b),
        "plan(a, b)": lambda: plan(a, b),
    } | dispatched("", lambda op: op(a, b), lambda op: op(a, b, out))


def fp8_calls(m: int, n: int, k: int) -> Calls:
    a = torch.randn(m, k, device="cuda").to(torch.float8_e4m3fn)
    b = torch.randn(n, k, device="cuda").to(torch.float8_e4m3fn).t()
    scale = torch.ones((), device="cuda")
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    options: dict[str, Any] = {"scale_a": scale, "scale_b": scale, "fast_accum": True}
    scaled: dict[str, Any] = {"scale_a": scale, "scale_b": scale, "use_fast_accum": True}
    scaled["out_dtype"] = torch.bfloat16
    plan = tilewright.plan(tilewright.gemm, a, b, out=out, **options)
    gemm = tilewright.gemm
    return {
        "torch._scaled_mm": lambda: torch._scaled_mm(a, b, **scaled),
        "torch._scaled_mm(out=)": lambda: torch._scaled_mm(a, b, out=out, **scaled),
        "FP8 tilewright.gemm": lambda: gemm(a, b, **options),
        "FP8 tilewright.gemm(out=)": lambda: gemm(a, b, out=out, **options),
        "FP8 plan(a, b, out)": lambda: plan(a, b, out),
        "FP8 plan(a, b)": lambda: plan(a, b),
    } | dispatched("FP8 ", lambda op: op(a, b, **options), lambda op: op(a, b, out, **options))


def quantizing_calls(m: int, k: int) -> Calls:
    """Beside an op of torch's that reads one tensor and writes one."""
    x = torch.randn(m, k, device="cuda").bfloat16()
    scale, positive = torch.full((1,), 500.0, device="cuda"), torch.empty_like(x)
    quantize = tilewright.quantize_nvfp4
    out, scales = quantize(x, scale)
    plan = tilewright.plan(quantize, x, scale)
    return {
        "torch.abs(out=)": lambda: torch.abs(x, out=positive),
        "quantize_nvfp4(out=)": lambda: quantize(x, scale, out=out, out_scales=scales),
        "plan(x, out, scales)": lambda: plan(x, out, scales),
    }


def dispatched(prefix: str, make: Callable[[Any], Any], write: Callable[[Any], Any]) -> Calls:
    """The registered ops, called as a compiled graph without inductor's wrappers would."""
    library = torch.ops.tilewright
    if not hasattr(library, "gemm"):
        return {}
    functional, mutating = library.gemm.default, library.gemm_out.default
    return {
        f"{prefix}torch.ops.tilewright.gemm_out": lambda: write(mutating),
        f"{prefix}torch.ops.tilewright.gemm": lambda: make(functional),
    }


def floor() -> dict[str, float]:
    """Seconds of the host that the driver takes for a launch."""
    major, minor = torch.cuda.get_device_capability()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "launch_floor"
        source = Path(__file__).with_name("launch_floor.cu")
        arch = f"-arch=sm_{major}{minor}a"
        nvcc = find_toolchain().nvcc
        subprocess.run([nvcc, "-O2", "-std=c++17", arch, "-o", program, source], check=True)
        output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return {name: value * 1e-6 for name, value in json.loads(output).items()}


# (ours, theirs)
RATIOS = [
    ("tilewright.gemm(out=)", "torch.mm(out=)"),
    ("plan(a, b, out)", "torch.mm(out=)"),
    ("torch.ops.tilewright.gemm_out", "torch.mm(out=)"),
    ("tilewright.gemm", "torch.mm"),
    ("plan(a, b)", "torch.mm"),
    ("torch.ops.tilewright.gemm", "torch.mm"),
    ("FP8 tilewright.gemm(out=)", "torch._scaled_mm(out=)"),
    ("FP8 plan(a, b, out)", "torch._scaled_mm(out=)"),
    ("FP8 torch.ops.tilewright.gemm_out", "torch._scaled_mm(out=)"),
    ("FP8 tilewright.gemm", "torch._scaled_mm"),
    ("FP8 plan(a, b)", "torch._scaled_mm"),
    ("FP8 torch.ops.tilewright.gemm", "torch._scaled_mm"),
    ("quantize_nvfp4(out=)", "torch.abs(out=)"),
    ("plan(x, out, scales)", "torch.abs(out=)"),
    ("an empty kernel, as lean ones", "torch.mm(out=)"),
]
ON_GPU = (
    "torch.mm(out=)",
    "tilewright.gemm(out=)",
    "torch._scaled_mm",
    "FP8 tilewright.gemm(out=)",
    "quantize_nvfp4(out=)",
)


def measured(calls: Calls) -> dict[str, float]:
    """Median seconds of host time a call."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        batch_seconds(call)
    for _ in range(BATCHES):
        for name, call in calls.items():
            samples[name].append(batch_seconds(call))
    return {name: statistics.median(values) for name, values in samples.items()}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write JSON there too")
    parser.add_argument("--shape", default="16x256x256", metavar="MxNxK", help="the product that is called")
    arguments = parser.parse_args()
    machine.require_gpu()
    m, n, k = map(int, arguments.shape.split("x"))
    calls = bf16_calls(m, n, k) | fp8_calls(m, n, k) | quantizing_calls(m, k)
    seconds = measured(calls) | floor()
    ratios = {
        f"{ours} / {theirs}": seconds[ours] / seconds[theirs] for ours, theirs in RATIOS if ours in seconds
    }
    result = {
        "shape": arguments.shape,
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "calls_a_batch": CALLS,
        "batches": BATCHES,
        "host_us": {name: value * 1e6 for name, value in seconds.items()},
        "gpu_us": {name: gpu_seconds(calls[name]) * 1e6 for name in ON_GPU},
        "ratios": ratios,
    }
    text = json.dumps(result, indent=1)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    if arguments.json:
        print(text)
        return 0
    for name, value in seconds.items():
        print(f"{name:<36} {value * 1e6:7.2f} us")
    for name, ratio in ratios.items():
        print(f"{name:<64} {ratio:6.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
