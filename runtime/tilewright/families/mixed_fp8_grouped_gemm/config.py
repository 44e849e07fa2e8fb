"""One `mixed_fp8_grouped_gemm` kernel: the fields are those of `mixed_fp8_gemm`.

How rows are grouped and clusters are arguments of a launch. k is not split.
"""

from __future__ import annotations

from tilewright.families.mixed_fp8_gemm.config import MixedFp8GemmConfig
from tilewright.families.mixed_gemm.config import MixedGemmFacts

CONFIG, FACTS = MixedFp8GemmConfig, MixedGemmFacts
