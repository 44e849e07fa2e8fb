"""The rules for `blockscaled_gemm` kernels that add a bias and apply an activation."""

from __future__ import annotations

from functools import partial

from tilewright.configurations.rule import OURS, among, of_module, rule
from tilewright.families.blockscaled_gemm.config import ULTRA_K, BlockscaledGemmConfig
from tilewright.formats.types import bits

# All kernels of the other mainloops have a bias (`SETTLED_MMA`, `SETTLED_TCGEN05`).
bias_rule = partial(rule, of=lambda config: config.mainloop == "default")


# blockscaled_gemm/blackwell_bias.hpp, sm90/epilogue.hpp: a call may leave out either.
@bias_rule(OURS, "bias activation", compiles="three kernels would do what one does")
def bias_and_activation(config: BlockscaledGemmConfig) -> str | None:
    """A kernel has both a bias and the activation that a call names, or neither; those of the mainloops mma
    and tcgen05 always have a bias."""
    if config.bias != (config.activation == "given"):
        both = "a bias goes with activation: given"
        return f"bias is {str(config.bias).lower()} beside activation {config.activation}; {both}"
    return None


# CUTLASS's epilogues that quantise D have fusions of their own (LinCombPerColBiasEltActBlockScaleFactor).
# blockscaled_gemm/blackwell_bias.hpp loads a bias of D's type. nvcc compiles a bias of FP8, too.
@bias_rule(OURS, "bias d", compiles="a bias of D's own 8 bits would be too coarse")
def quantized_bias(config: BlockscaledGemmConfig) -> str | None:
    """A kernel whose D has 4 or 8 bits has no bias."""
    return f"D of {config.d} has no bias" if config.bias and bits(config.d) <= 8 else None


# Other stores and tiles of K 768 are not compiled with a bias.
@bias_rule(OURS, "bias store tile", compiles="it would be one that nobody compiled")
def biased_store(config: BlockscaledGemmConfig) -> str | None:
    """D of a kernel with a bias is stored by TMA, and its tile is not one of K 768."""
    if config.bias and config.ultra:
        return f"tiles of K {ULTRA_K} have no bias"
    return among("store of D beside a bias", config.store, ("tma",)) if config.bias else None


RULES = of_module(__name__)
