"""Dense GEMM, through CUTLASS 3.x collective builders, or a lean mainloop of ours."""

from __future__ import annotations

from tilewright_generator.families.family import Family
from tilewright_generator.families.gemm import kernel
from tilewright_generator.families.gemm.config import GemmConfig
from tilewright_generator.families.gemm.rules import RULES

FAMILY = Family.of("gemm", GemmConfig, RULES, kernel)
