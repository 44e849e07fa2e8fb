"""Dense GEMM, through CUTLASS 3.x collective builders, or a lean mainloop of ours."""

from __future__ import annotations

from tilewright_generator.families.family import Family
from tilewright_generator.families.gemm.config import GemmConfig
from tilewright_generator.families.gemm.kernel import build, facts, kernel_name, summary, template, variables
from tilewright_generator.families.gemm.rules import RULES

FAMILY = Family(
    name="gemm",
    config=GemmConfig,
    rules=RULES,
    kernel_name=kernel_name,
    facts=facts,
    variables=variables,
    build=build,
    template=template,
    summary=summary,
)
