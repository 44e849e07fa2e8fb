"""The alignments that a `blockscaled_gemm` kernel needs."""

from __future__ import annotations

from tilewright.configurations.shared import MatrixAlignment
from tilewright.families.blockscaled_gemm.config import HOPPER, BlockscaledGemmConfig, by_mma
from tilewright.families.blockscaled_gemm.problem import c_type
from tilewright.formats.types import bits


def alignment(config: BlockscaledGemmConfig) -> MatrixAlignment:
    """For each matrix the number of elements that divides its contiguous extent and its leading dimension.

    TMA moves 16 bytes; FP4 beside FP8 is unpacked to bytes by TMA, 128 elements at a time. Hopper's kernels
    take whole blocks of MX formats, and their epilogue stores single elements where it must.
    """
    if config.architecture is HOPPER:
        return {"a": 32, "b": 32, "c": 1, "d": 1}
    if by_mma(config):  # FP4 is unpacked from shared memory
        a, b = (128 // bits(dtype) for dtype in (config.a, config.b))
        return {"a": a, "b": b, "c": 1, "d": 1}
    store = 256 if config.store == "direct_256" else 128
    wide = 128 if config.mixes_bits else 32
    a, b = (wide if bits(dtype) == 4 else 16 for dtype in (config.a, config.b))
    return {"a": a, "b": b, "c": store // bits(c_type(config.d)), "d": store // bits(config.d)}
