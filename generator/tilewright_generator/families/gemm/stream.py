"""What is legal for a `gemm` kernel of few rows, which reads B into registers (`gemm/stream_kernel.hpp`)."""

from __future__ import annotations

from tilewright.types import bits
from tilewright_generator.families.gemm.config import GemmConfig, stream
from tilewright_generator.families.rule import OURS, of_module, rule
from tilewright_generator.shapes import Cluster

ROWS, COLUMNS, WARPS = 8, 16, 8  # of D, and of a thread block
STEP_BYTES = 64  # of k, that two mma.sync take
SHARED_BYTES = (WARPS + 1) * ROWS * COLUMNS * 4  # sums of the warps, and of all


def steps(config: GemmConfig) -> int:
    """Steps of k that a warp loads at a time."""
    return config.tile.k * bits(config.a) // 8 // STEP_BYTES


# gemm/stream_kernel.hpp: mma.sync.m16n8, of which B is the operand of 16 rows; a lane loads 16 bytes of two.
@rule(OURS, "a layout tile", of=stream)
def stream_operands(config: GemmConfig) -> str | None:
    """A stream kernel multiplies 16-bit or FP8 operands with k contiguous, 16x8 and 128 or 256 bytes of k."""
    if config.a in ("tf32", "s8") or config.layout != "tn":
        given = f"{config.a} in layout {config.layout}"
        return f"the stream mainloop takes operands of 16 bits and FP8 in layout tn, not {given}"
    if config.tile[:2] != (COLUMNS, ROWS) or steps(config) not in (2, 4):
        size = config.tile.k * bits(config.a) // 8
        return (
            f"a stream tile is {COLUMNS}x{ROWS} with 128 or 256 bytes of k, not {config.tile}, {size} bytes"
        )
    return None


# gemm/stream.hpp: a grid of thread blocks, each of which divides k over its warps.
@rule(
    OURS,
    "swap_ab schedule scheduler cluster fast_accum bias c stages",
    compiles="the kernel would be the same under another name",
    of=stream,
)
def stream_schedule(config: GemmConfig) -> str | None:
    """A stream kernel is swapped, cooperative, without clusters and exact; it takes a bias and a C."""
    wanted = {
        "swap_ab": True,
        "schedule": "cooperative",
        "scheduler": "data_parallel",
        "cluster": Cluster(1, 1),
        "fast_accum": False,
        "bias": True,
        "c": "same",
        "stages": "auto",
    }
    for field, value in wanted.items():
        if (given := getattr(config, field)) != value:
            return f"{field} of a stream kernel is {value}, not {given}"
    return None


STREAM_RULES = of_module(__name__)
