"""The rules that hold for `gemm` kernels with CUTLASS's mainloop alone. `rules` has those of all kernels."""

from __future__ import annotations

from functools import partial

from tilewright.configurations.rule import OURS, cutlass, of_module, rule
from tilewright.configurations.shared import flag
from tilewright.families.gemm.config import CUTLASS, GemmConfig
from tilewright.families.gemm.problem import OWN_OPERANDS

cutlass_rule = partial(rule, of=CUTLASS)


# CuTe cannot slice the stages of B: "Stride Divisibility Condition", "Shape Divisibility Condition" in
# cute/layout.hpp, from the mainloop's tensor map. The hardware's instructions have these N.
@cutlass_rule(
    cutlass("4.2"),
    "tile stages",
    compiles="FP8 of 24 columns compiles with CuTe's further shapes, and never ran; lean kernels have it",
)
def odd_columns(config: GemmConfig) -> str | None:
    """Tile N is a multiple of 16, or 8 with an even number of stages."""
    n, stages = config.tile.n, config.stages
    if n > 8 and n % 16 == 8:
        lean = flag(", or the mainloop lean, whose N are multiples of 8", config.a in OWN_OPERANDS)
        return f"tile N {n} is an odd multiple of 8 above 8; N may be {n - 8} or {n + 8}{lean}"
    if n == 8 and stages != "auto" and stages % 2:
        return f"tile N 8 goes with an even number of stages, not {stages}"
    return None


# sm90_gemm_tma_warpspecialized_cooperative.hpp: "Cooperative kernel requires Tile Size to be greater
# than or equal to 128 along the M-dimension", and its epilogue tile of 128 rows must divide M.
@cutlass_rule(cutlass("4.2"), "tile schedule")
def cooperative_rows(config: GemmConfig) -> str | None:
    """A cooperative tile gives each of its two warpgroups whole instructions: M is 128 or 256."""
    if config.schedule == "cooperative" and config.tile.m % 128:
        return f"cooperative needs tile M to be a multiple of 128, {config.tile.m} is not"
    return None


# CUDA programming guide: 8 thread blocks are the largest portable cluster. A launch may ask for up to 16;
# ours do not. Sides that are powers of two divide every tile; other sizes leave SMs of a GPC idle.
@cutlass_rule(
    OURS,
    "cluster",
    compiles="a launch of more than 8 fails unless it asks for them, and others leave SMs idle",
)
def cluster_size(config: GemmConfig) -> str | None:
    """A cluster is 1, 2, 4 or 8 thread blocks, with powers of two for sides."""
    if config.cluster == "dynamic":
        return "the cluster of a CUTLASS kernel for sm_90 is fixed at compile time, not dynamic"
    m, n = config.cluster
    if m * n > 8:
        return f"cluster {config.cluster} has {m * n} thread blocks > 8, the largest portable size"
    if m & (m - 1) or n & (n - 1):
        return f"cluster {config.cluster} has a side that is not a power of two"
    return None


# With multicast each thread block of a cluster loads an equal slice of the shared tile. A slice consists of
# whole 8-row swizzle atoms of shared memory. A has at least 64 rows, so only B's slices can be too small.
@cutlass_rule(OURS, "cluster tile", compiles="no GPU has run slices that begin within a swizzle atom")
def multicast_slices(config: GemmConfig) -> str | None:
    """The columns of B that a cluster shares split into slices of whole 8-row atoms."""
    if config.cluster == "dynamic":
        return None  # `cluster_size` says it
    rows, parts = config.tile.n, config.cluster.m
    if parts in (2, 4, 8) and rows % (8 * parts):
        return (
            f"cluster {config.cluster} splits the {rows} rows of B's tile into {parts} slices "
            f"of {rows / parts:g}, not a multiple of 8"
        )
    return None


# sm90_mma_tma_gmma_ss_warpspecialized_fp8.hpp, can_implement: sums are promoted every 4 instructions,
# which must be whole mainloop iterations; a deeper tile would be promoted less often. Ours promote every box.
@cutlass_rule(cutlass("4.2"), "tile fast_accum a", compiles="its can_implement refuses every problem")
def promoted_depth(config: GemmConfig) -> str | None:
    """Without fast accumulation an FP8 tile is at most 128 deep: the distance between promotions."""
    if config.a in ("e4m3", "e5m2") and not config.fast_accum and config.tile.k > 128:
        return f"FP8 sums without fast_accum are promoted every 128 of k; tile K {config.tile.k} is deeper"
    return None


RULES = of_module(__name__)
