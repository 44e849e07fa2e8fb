"""Products of 16-bit matrices that are added up over a batch: kernels of our own for Hopper."""

from __future__ import annotations

from tilewright_generator.families.family import Family
from tilewright_generator.families.reduced_gemm import kernel
from tilewright_generator.families.reduced_gemm.config import ReducedConfig
from tilewright_generator.families.reduced_gemm.rules import RULES

FAMILY = Family.of("reduced_gemm", ReducedConfig, RULES, kernel)
