"""What reading, packing and unpacking the weights of a model's layer costs on a CPU; needs no GPU.

    python -m benchmarks.host.weight_packing [--threads N] [--write]

The layer is a decoder layer of Llama 3 70B: q, k and v as one weight, o, gate and up as one weight, down; 856
million elements. Their bytes are random. Seconds are of the wall and of the processor (all threads), summed
over the four weights. The load says how far others were in the way.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from benchmarks.lib.machine import describe, record

from tilewright import pack_weight, unpack_weight, weights
from tilewright.weights import QuantizedWeight

WEIGHTS = {"qkv": (10240, 8192), "o": (8192, 8192), "gate_up": (57344, 8192), "down": (8192, 28672)}
T = TypeVar("T")


def words(*shape: int) -> torch.Tensor:
    return torch.randint(-(2**31), 2**31, shape, dtype=torch.int32)


def octets(*shape: int, below: int = 256) -> torch.Tensor:
    return torch.randint(0, below, shape, dtype=torch.uint8)


def awq(n: int, k: int) -> Callable[[], QuantizedWeight]:
    tensors = words(k, n // 8), words(k // 128, n // 8), torch.rand(k // 128, n).half() + 0.01
    return lambda: weights.from_awq(*tensors)


def gptq(n: int, k: int) -> Callable[[], QuantizedWeight]:
    middle = torch.full((k // 128, n // 8), 0x77777777, dtype=torch.int32)
    tensors = words(k // 8, n), middle, torch.rand(k // 128, n).half() + 0.01
    return lambda: weights.from_gptq(*tensors)


def nvfp4(n: int, k: int) -> Callable[[], QuantizedWeight]:
    scales = octets(n, k // 16, below=127).view(torch.float8_e4m3fn)
    tensors = octets(n, k // 2), scales, torch.tensor(0.5)
    return lambda: weights.from_modelopt_nvfp4(*tensors)


def mxfp4(n: int, k: int) -> Callable[[], QuantizedWeight]:
    tensors = octets(n, k // 2), octets(n, k // 32)
    return lambda: weights.from_mxfp4(*tensors)


CHECKPOINTS = {"awq": awq, "gptq": gptq, "nvfp4": nvfp4, "mxfp4": mxfp4}


class Clock:
    """Seconds of the wall and of the processor, by what was done in them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def timed(self, name: str, work: Callable[[], T]) -> T:
        wall, processor = time.perf_counter(), time.process_time()
        result = work()
        for kind, spent in (("wall", time.perf_counter() - wall), ("cpu", time.process_time() - processor)):
            key = f"{name}_{kind}_s"
            self.seconds[key] = self.seconds.get(key, 0.0) + spent
        return result


def layer(checkpoint: str) -> dict[str, float]:
    """The seconds of a layer; a weight that does not come back is an error."""
    clock = Clock()
    for n, k in WEIGHTS.values():
        weight = clock.timed("read", CHECKPOINTS[checkpoint](n, k))
        packed = clock.timed("pack", lambda weight=weight: pack_weight(weight, torch.bfloat16))
        back = clock.timed("unpack", lambda packed=packed: unpack_weight(packed))
        if not torch.equal(back.codes, weight.codes):
            raise RuntimeError(f"{checkpoint}: the codes of {n} x {k} do not come back")
    return {name: round(seconds, 2) for name, seconds in clock.seconds.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="Threads of torch (default: torch's).")
    parser.add_argument("--write", action="store_true", help="Write benchmarks/results/weight_packing.json.")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    result: dict[str, Any] = {
        "elements": sum(n * k for n, k in WEIGHTS.values()),
        "threads": torch.get_num_threads(),
        **{name: layer(name) for name in CHECKPOINTS},
        "machine": {**describe("torch"), "load": [round(load, 2) for load in os.getloadavg()]},
    }
    text = json.dumps(result, indent=1) + "\n"
    print(text, end="")
    if arguments.write:
        record("weight_packing.json", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
