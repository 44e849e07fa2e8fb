"""The shared memory of a `mixed_gemm` kernel, as mixed_gemm/layout.hpp and stream_warp.hpp lay it out.

Every generated file asserts the total against the compiler's."""

from __future__ import annotations

from tilewright import weight_formats
from tilewright.configurations import lean_tiles
from tilewright.configurations.shared import BARRIER, Memory
from tilewright.families.mixed_gemm.config import MixedGemmConfig, is_gated, type_of_d
from tilewright.families.mixed_gemm.problem import FORMATS
from tilewright.formats.types import bits
from tilewright.selection.estimates import held_by_memory

FEW_COLUMNS = 32  # more sums would spill with four warpgroups, where weights are not decoded quickly
QUICK_COLUMNS = 64  # with more, tensor cores take the time: INT4 is not decoded quickly (quick_int4.hpp)
PIECE = 64  # elements of k in a box of activations, and in a piece of the weight
STREAM_PADDING = 16  # bytes after a row of sums of a stream kernel
STREAM_BARRIER = 8  # bytes of a stage's mbarrier of a stream kernel, which has one


def warpgroups(config: MixedGemmConfig) -> lean_tiles.Warpgroups:
    """The warpgroups of one group: one has 64 rows, two have 128 or 256, three have 192. Four have 256 if the
    tile has few columns: decoding takes the most time then, and more warps hide its latencies. In balanced
    kernels of MXFP4 they do so up to 64 columns."""
    slices = config.tile.m // 64
    consumers = {1: 1, 3: 3}.get(slices, 2)
    many = config.mainloop == "balanced" and config.weight_format == "mxfp4"
    if slices == 4 and config.tile.n <= (QUICK_COLUMNS if many else FEW_COLUMNS):
        consumers = 4
    return lean_tiles.Warpgroups(consumers, max(slices // consumers, 1), config.tile.n)


def consumers(config: MixedGemmConfig) -> int:
    """All warpgroups that multiply."""
    return warpgroups(config).consumers * config.k_groups


def weight_bytes(config: MixedGemmConfig) -> int:
    """Bytes of the codes of 64 rows in a stage."""
    format, _ = FORMATS[config.weight_format]
    return weight_formats.FORMATS[format].unit_bytes * config.tile.k // weight_formats.UNIT_K


def scale_bytes(config: MixedGemmConfig) -> int:
    """Bytes of the scales of 64 rows in a stage. A stage of 64 of k has half of the scales of 128 of k,
    unless all 128 share one scale."""
    format, group = FORMATS[config.weight_format]
    unit = weight_formats.FORMATS[format].record_bytes(group)
    return unit // 2 if config.tile.k == PIECE and group < weight_formats.UNIT_K else unit


def activation_bytes(config: MixedGemmConfig) -> int:
    """Bytes of activations in a stage."""
    return config.tile.n * config.tile.k * 2


def stage_bytes(config: MixedGemmConfig) -> int:
    """Bytes of a stage, without its barriers."""
    weights = config.tile.m // 64 * (weight_bytes(config) + scale_bytes(config))
    return weights + activation_bytes(config)


def memory(config: MixedGemmConfig) -> Memory:
    """The stages that fit, and the shared memory of the kernel in bytes."""
    return _stream(config) if config.mainloop == "stream" else _wgmma(config)


def stream_sums(config: MixedGemmConfig) -> int:
    """Bytes of the sums of a stream kernel's warp, and of its thread block."""
    return config.tile.n * (config.tile.m * 4 + STREAM_PADDING)


def stream_weights(config: MixedGemmConfig) -> int:
    """Bytes of weights and scales in a stage of a stream kernel's warp."""
    return config.tile.m // 64 * (weight_bytes(config) + scale_bytes(config))


def _stream(config: MixedGemmConfig) -> Memory:
    """A ring of stages for each warp, and the sums of the thread block."""
    sums = stream_sums(config)
    stage = (stream_weights(config) + activation_bytes(config) + STREAM_BARRIER) * config.warps
    return lean_tiles.fitted(config.stages, stage, sums)


def _wgmma(config: MixedGemmConfig) -> Memory:
    stores = lean_tiles.store_bytes(warpgroups(config), bits(type_of_d(config)), swapped=True)
    if is_gated(config):
        stores //= 2  # of D's columns
    stage = stage_bytes(config) + BARRIER
    return lean_tiles.fitted(config.stages, stage, stores, unit=config.k_groups)


def blocks_of_sm(config: MixedGemmConfig) -> int:
    """Thread blocks of a stream kernel that an SM's shared memory holds."""
    return max(1, held_by_memory(memory(config).total))
