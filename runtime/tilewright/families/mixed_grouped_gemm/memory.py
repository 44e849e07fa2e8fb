"""The shared memory of a `mixed_grouped_gemm` kernel, as mixed_grouped_gemm/kernel.hpp lays it out: that of
`mixed_gemm`, the queue of tiles, and the sums that groups of warpgroups pass to the first group."""

from __future__ import annotations

from tilewright.configurations import lean_tiles
from tilewright.configurations.shared import BARRIER, Memory
from tilewright.families.mixed_fp8_gemm.config import MixedFp8GemmConfig
from tilewright.families.mixed_gemm import memory as dense
from tilewright.families.mixed_gemm.config import MixedGemmConfig, is_gated
from tilewright.families.mixed_gemm.memory import stage_bytes, warpgroups

QUEUE = 8 * (32 + 16)  # eight tiles of 32 bytes, each with two barriers


def memory(config: MixedGemmConfig) -> Memory:
    """The stages that fit, and the bytes of shared memory. A stream kernel has those of a dense one."""
    if config.mainloop == "stream":
        return dense.memory(config)
    return by_wgmma(config, warpgroups(config), stage_bytes(config), is_gated(config))


def by_wgmma(
    config: MixedGemmConfig | MixedFp8GemmConfig,
    warpgroups: lean_tiles.Warpgroups,
    stage_bytes: int,
    gated: bool = False,
) -> Memory:
    """The same for kernels of wgmma, whatever the type of activations; a stage is without its barriers."""
    stores = lean_tiles.store_bytes(warpgroups, 16, swapped=True) // (2 if gated else 1)  # of D's columns
    beside = stores + QUEUE + _sum_bytes(config)
    return lean_tiles.fitted(config.stages, stage_bytes + BARRIER, beside, unit=config.k_groups)


def _sum_bytes(config: MixedGemmConfig | MixedFp8GemmConfig) -> int:
    """Bytes of the sums of all groups of warpgroups but the first."""
    return (config.k_groups - 1) * config.tile.m * config.tile.n * 4
