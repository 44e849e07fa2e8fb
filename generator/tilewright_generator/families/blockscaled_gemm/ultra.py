"""What is legal of the tiles of K 768, which go with sm_103's FP4 instructions of K 96."""

from __future__ import annotations

from tilewright.types import bits
from tilewright_generator.families.blockscaled_gemm.config import ULTRA_K, BlockscaledGemmConfig, ultra
from tilewright_generator.families.rule import HARDWARE, OURS, cutlass, rule


# nvcc compiles it for sm_100f too; but PTX has tcgen05.mma of K 96 for sm_103 alone.
@rule(
    HARDWARE,
    "tile arch",
    compiles="the instruction of K 96 is sm_103's: elsewhere it compiles and is undefined",
)
def ultra_arch(config: BlockscaledGemmConfig) -> str | None:
    """Tiles of K 768 are for sm_103a."""
    if ultra(config) and config.arch != "sm_103a":
        return f"tile K {ULTRA_K} is for sm_103a, not {config.arch}"
    return None


# sm103_blockscaled_umma_builder.inl: FP4 alone ("Could not build a collective");
# sm103_blockscaled_mma_warpspecialized.hpp: "Cta N should be one of 128/192/256".
@rule(cutlass("4.2"), "tile a b")
def ultra_tile(config: BlockscaledGemmConfig) -> str | None:
    """Tiles of K 768 are for FP4, with N of 128, 192 or 256."""
    if not ultra(config):
        return None
    if bits(config.a) != 4 or bits(config.b) != 4:
        return f"tile K {ULTRA_K} is for FP4 operands, not {config.a} x {config.b}"
    if config.tile.n not in (128, 192, 256):
        return f"tiles of K {ULTRA_K} have N of 128, 192 or 256, not {config.tile.n}"
    return None


# It compiles, with a stage less; CUTLASS's generator and example 89 pair ultra tiles with NoSmem
# alone.
@rule(OURS, "store tile", compiles="D's buffers cost a stage; CUTLASS's generator has no such kernel")
def ultra_store(config: BlockscaledGemmConfig) -> str | None:
    """Tiles of K 768 store D directly."""
    if ultra(config) and config.store == "tma":
        return f"tiles of K {ULTRA_K} leave no shared memory for D: store is direct or direct_256"
    return None


# sm103_blockscaled_umma_builder.inl: a StageCount gives one number where two are taken ("Index out of
# range").
@rule(cutlass("4.2"), "stages tile")
def ultra_stages(config: BlockscaledGemmConfig) -> str | None:
    """Tiles of K 768 have as many stages as fit."""
    if ultra(config) and config.stages != "auto":
        return f"stages of tiles of K {ULTRA_K} are auto, not {config.stages}"
    return None


# It is read nowhere else.
@rule(OURS, "prefetch tile", compiles="the kernel would be the same under another name")
def prefetch_of_ultra(config: BlockscaledGemmConfig) -> str | None:
    """Prefetch is a choice of the tiles of K 768 alone."""
    if config.prefetch == "none" and not ultra(config):
        return f"prefetch is a choice of tiles of K {ULTRA_K}, not {config.tile.k}"
    return None
