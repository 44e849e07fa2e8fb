"""FP32 scales into the layouts that kernels read: a kernel of our own."""

from __future__ import annotations

from tilewright_generator.families.family import Family
from tilewright_generator.families.scale_columns.config import ScaleColumnsConfig
from tilewright_generator.families.scale_columns.kernel import build, facts, kernel_name, summary, variables

FAMILY = Family(
    name="scale_columns",
    config=ScaleColumnsConfig,
    rules=(),  # every configuration is legal
    kernel_name=kernel_name,
    facts=facts,
    variables=variables,
    build=build,
    template=lambda config: "scale_columns/kernel.cu.j2",
    summary=summary,
)
