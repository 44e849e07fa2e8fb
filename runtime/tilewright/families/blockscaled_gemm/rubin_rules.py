"""The rules for `blockscaled_gemm` kernels of sm_107a, whose FP4 instructions of K 128 Rubin alone has."""

from __future__ import annotations

from functools import partial

from tilewright.configurations.rule import OURS, among, cutlass, of_module, rule, unsettled
from tilewright.families.blockscaled_gemm.config import RUBIN_K, RUBIN_RELEASE, BlockscaledGemmConfig

rubin_rule = partial(rule, of=lambda config: config.rubin)


# sm107_blockscaled_umma_builder.inl is of CUTLASS 4.8. Kernels of other targets compile with older headers,
# which would then not be asked.
@rule(OURS, "cutlass arch", compiles="older headers compile such a kernel, and would not be asked")
def rubin_release(config: BlockscaledGemmConfig) -> str | None:
    """Kernels of sm_107a, and no others, need CUTLASS 4.8."""
    if config.rubin == (config.cutlass == RUBIN_RELEASE):
        return None
    return f"cutlass {config.cutlass} beside {config.arch}: sm_107a, and no other, needs {RUBIN_RELEASE}"


# The builder also takes MXFP4 and MXFP8, which nobody compiled; our programs in CuTe-DSL have K of 64.
@rubin_rule(OURS, "a b d mainloop c bias store", compiles="it would be one that nobody compiled")
def rubin_types(config: BlockscaledGemmConfig) -> str | None:
    """Kernels of sm_107a multiply NVFP4 by CUTLASS, without C or bias, and store 16 or 32 bits by TMA."""
    settled = {"a": "nvfp4", "b": "nvfp4", "mainloop": "default", "c": "none", "bias": False, "store": "tma"}
    reason = unsettled(config, "kernels of sm_107a", settled)
    return reason or among("D of sm_107a", config.d, ("bf16", "f16", "f32"))


# sm107_common.inl: "Invalid TileShape_K" for an FP4 tile of any other K.
@rubin_rule(cutlass("4.8"), "tile")
def rubin_depth(config: BlockscaledGemmConfig) -> str | None:
    """Tile K of sm_107a is 256: two instructions."""
    return among("tile K of sm_107a", config.tile.k, (RUBIN_K,))


TILES = (rubin_release, rubin_types, rubin_depth)
RULES = of_module(__name__)
