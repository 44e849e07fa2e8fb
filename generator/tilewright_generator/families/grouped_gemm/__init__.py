"""Products with scale factors, of rows that may belong to groups, by a lean mainloop of ours."""

from __future__ import annotations

from tilewright_generator.families.family import Family
from tilewright_generator.families.grouped_gemm import kernel
from tilewright_generator.families.grouped_gemm.config import GroupedGemmConfig
from tilewright_generator.families.grouped_gemm.rules import RULES

FAMILY = Family.of("grouped_gemm", GroupedGemmConfig, RULES, kernel)
