"""The rules for `blockscaled_gemm` kernels with tiles of K 768, whose MMAs have K of 96 (sm_103)."""

from __future__ import annotations

from functools import partial

from tilewright.architectures.table import of_target, targets
from tilewright.configurations.rule import HARDWARE, OURS, among, cutlass, of_module, rule
from tilewright.families.blockscaled_gemm.config import (
    ULTRA_K,
    ULTRA_MMA_K,
    BlockscaledGemmConfig,
    by_tcgen05,
)
from tilewright.formats.types import bits

ultra_rule = partial(rule, of=lambda config: config.ultra)
cutlass_rule = partial(rule, of=lambda config: config.ultra and not by_tcgen05(config))

_TARGETS = tuple(target for target in targets() if of_target(target).tensor_core.fp4_k == ULTRA_MMA_K)


# nvcc compiles it for sm_100f too, but by the PTX ISA only sm_103 has tcgen05.mma with K of 96.
@ultra_rule(
    HARDWARE,
    "tile arch",
    compiles="the instruction of K 96 is sm_103's: elsewhere it compiles and is undefined",
)
def ultra_arch(config: BlockscaledGemmConfig) -> str | None:
    """Tiles of K 768 are for sm_103a."""
    return among(f"arch of tile K {ULTRA_K}", config.arch, _TARGETS)


# sm103_blockscaled_umma_builder.inl: only FP4 (else "Could not build a collective");
# sm103_blockscaled_mma_warpspecialized.hpp: "Cta N should be one of 128/192/256".
@ultra_rule(cutlass("4.2"), "tile a b")
def ultra_tile(config: BlockscaledGemmConfig) -> str | None:
    """Tiles of K 768 are for FP4, with N of 128, 192 or 256."""
    if bits(config.a) != 4 or bits(config.b) != 4:
        return f"tile K {ULTRA_K} is for FP4 operands, not {config.a} x {config.b}"
    return among(f"N of tiles of K {ULTRA_K}", config.tile.n, (128, 192, 256))


# It compiles: C's buffers cost stages. CUTLASS's generator and example 89 pair ultra tiles only with NoSmem.
@cutlass_rule(
    OURS, "store tile c", compiles="C's buffers cost stages; CUTLASS's generator has no such kernel"
)
def ultra_store(config: BlockscaledGemmConfig) -> str | None:
    """Tiles of K 768 that add C store D directly."""
    if config.c == "same" and config.store == "tma":
        return f"tiles of K {ULTRA_K} leave no shared memory for C: store is direct or direct_256"
    return None


# sm103_blockscaled_umma_builder.inl: a StageCount gives one number, and two are needed ("Index out of
# range").
@cutlass_rule(cutlass("4.2"), "stages tile")
def ultra_stages(config: BlockscaledGemmConfig) -> str | None:
    """Tiles of K 768 have as many stages as fit."""
    return among(f"stages of tiles of K {ULTRA_K}", config.stages, ("auto",))


TILES = (ultra_tile, ultra_store)
RULES = of_module(__name__)
