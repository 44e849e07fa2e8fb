"""Products with scale factors, of rows that may belong to groups, by a lean mainloop of ours."""

from __future__ import annotations

from tilewright_generator.families.family import Family
from tilewright_generator.families.grouped_gemm.config import GroupedGemmConfig
from tilewright_generator.families.grouped_gemm.kernel import build, facts, kernel_name, summary, variables
from tilewright_generator.families.grouped_gemm.rules import RULES

FAMILY = Family(
    name="grouped_gemm",
    config=GroupedGemmConfig,
    rules=RULES,
    kernel_name=kernel_name,
    facts=facts,
    variables=variables,
    build=build,
    template=lambda config: "grouped_gemm/kernel.cu.j2",
    summary=summary,
)
