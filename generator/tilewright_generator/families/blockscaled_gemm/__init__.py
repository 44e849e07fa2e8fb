"""Block-scaled GEMM (NVFP4, MXFP4, MXFP8): CUTLASS 3.x on Blackwell, a mainloop of ours on Hopper."""

from __future__ import annotations

from tilewright_generator.families.blockscaled_gemm import kernel, source
from tilewright_generator.families.blockscaled_gemm.config import BlockscaledGemmConfig
from tilewright_generator.families.blockscaled_gemm.rules import RULES
from tilewright_generator.families.family import Family

FAMILY = Family.of("blockscaled_gemm", BlockscaledGemmConfig, RULES, kernel, source)
