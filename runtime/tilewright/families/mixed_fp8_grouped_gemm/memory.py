"""The shared memory of a `mixed_fp8_grouped_gemm` kernel: stages of `mixed_fp8_gemm`, beside what kernels of
groups have."""

from __future__ import annotations

from tilewright.configurations.shared import Memory
from tilewright.families.mixed_fp8_gemm.config import MixedFp8GemmConfig
from tilewright.families.mixed_fp8_gemm.memory import stage_bytes, warpgroups
from tilewright.families.mixed_grouped_gemm.memory import by_wgmma


def memory(config: MixedFp8GemmConfig) -> Memory:
    """The stages that fit, and the shared memory of the kernel in bytes."""
    return by_wgmma(config, warpgroups(config), stage_bytes(config))
