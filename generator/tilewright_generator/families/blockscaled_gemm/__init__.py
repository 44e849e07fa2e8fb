"""Block-scaled GEMM (NVFP4, MXFP4, MXFP8): CUTLASS 3.x on Blackwell, a mainloop of ours on Hopper."""

from __future__ import annotations

from tilewright_generator.families.blockscaled_gemm.config import BlockscaledGemmConfig
from tilewright_generator.families.blockscaled_gemm.kernel import (
    build,
    facts,
    kernel_name,
    summary,
)
from tilewright_generator.families.blockscaled_gemm.rules import RULES
from tilewright_generator.families.blockscaled_gemm.source import template, variables
from tilewright_generator.families.family import Family

FAMILY = Family(
    name="blockscaled_gemm",
    config=BlockscaledGemmConfig,
    rules=RULES,
    kernel_name=kernel_name,
    facts=facts,
    variables=variables,
    build=build,
    template=template,
    summary=summary,
)
