"""One `quantize` kernel: x[m,k] becomes data and a scale for each block; or data and scales become x.

A launch chooses the layout of scales, the grid, and whether each row has a global scale.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, TypedDict

from tilewright.architectures.table import of_target
from tilewright.configurations.rows import LEFT_OUT
from tilewright.configurations.shared import AnyTarget, Multiple, OwnPdl, SharedBytes, Threads
from tilewright.configurations.value_kinds import Bounds
from tilewright.families.quantize.problem import Direction, Format, FourOverSix, Fusion, XType
from tilewright.formats.types import TYPES


@dataclass(frozen=True, slots=True)
class QuantizeConfig:
    """Everything that is decided when a `quantize` kernel is compiled."""

    arch: Annotated[AnyTarget, "architecture the kernel is compiled for"]
    format: Annotated[
        Format,
        "nvfp4 is E2M1 in blocks of 16 with E4M3 scales; mxfp4 (E2M1), mxfp8 (E4M3) and "
        "mxfp8_e5m2 have blocks of 32 with UE8M0 scales; fp8_1x128, fp8_128x1 and fp8_128x128 are E4M3 with "
        "FP32 scales, the first and the last or UE8M0 packed four to a word, as the launch says",
    ]
    x: Annotated[XType, "type of x; if dequantising, of the result"]
    direction: Annotated[Direction, "from x to data and scales, or back"] = "quantize"
    variant: Annotated[
        Literal["vector", "tma"],
        "vector: threads load what they quantise, 16 bytes at once; tma: one warp keeps a ring of stages "
        "full by bulk copies, and the other warps quantise from shared memory",
    ] = "vector"
    arithmetic: Annotated[
        Literal["exact", "fast"],
        "exact: IEEE division, bits equal to the reference's; fast: approximate reciprocals",
    ] = "exact"
    fusion: Annotated[
        Fusion,
        "computed before quantising: silu(x[:, :k]) * x[:, k:], or x * rsqrt(mean(x^2) + eps) * weight",
    ] = "none"
    threads: Annotated[
        int,
        Bounds(32, 1024, multiple=32),
        "threads of a thread block that quantise: 128, 256 or 512; tma: 256, 512 or 768. "
        "Each warp takes four rows at a time",
    ] = 256
    stages: Annotated[int, Bounds(1, 16), "depth of the tma variant's ring, 2 or more; 1 for vector"] = 1
    pdl: OwnPdl = True
    four_over_six: Annotated[
        FourOverSix,
        "mse, mae: a NVFP4 block's amax becomes 6 or 4, by the smaller sum of squares or of magnitudes of "
        "its errors (arXiv 2512.02010); none: 6",
    ] = field(default="none", metadata=LEFT_OUT)
    compiler: Annotated[
        Literal["nvcc", "cute_dsl"],
        "nvcc: in C++; cute_dsl: in CuTe-DSL, whose compiler is an extra; only a call that names such a "
        "kernel runs it. Its tma variant loads boxes of 128 bytes by tensor maps, swizzled",
    ] = field(default="nvcc", metadata=LEFT_OUT)


class QuantizeAlignment(TypedDict):
    """The number of elements that divides the address, row stride and group stride of x and of the data."""

    x: Multiple
    data: Multiple


class QuantizeFacts(TypedDict):
    """Derived numbers that the runtime needs."""

    smem_bytes: SharedBytes
    threads: Threads
    block: tuple[Multiple, Multiple]  # rows and columns that share a scale
    k_multiple: Multiple
    alignment: QuantizeAlignment


CONFIG, FACTS = QuantizeConfig, QuantizeFacts


def block(format: str) -> tuple[int, int]:
    """Rows and columns that share a scale."""
    return TYPES[format].block


def converts_e2m1(config: QuantizeConfig) -> bool:
    """Whether the architecture has the conversion to E2M1: all from sm_100 on."""
    return of_target(config.arch).tensor_core.fp4_k > 0


def by_thresholds(config: QuantizeConfig) -> bool:
    """Whether E4M3 becomes NVFP4 by comparisons of bytes, on GPUs without a conversion to E2M1."""
    return (
        config.format == "nvfp4"
        and config.x == "e4m3"
        and config.arithmetic == "exact"
        and config.direction == "quantize"
        and not converts_e2m1(config)
    )


def in_cute_dsl(config: QuantizeConfig) -> bool:
    """Whether the kernel is written in CuTe-DSL."""
    return config.compiler == "cute_dsl"
