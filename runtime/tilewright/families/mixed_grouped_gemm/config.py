"""One `mixed_grouped_gemm` kernel: the fields are those of `mixed_gemm`.

How rows are grouped and clusters are arguments of a launch. k is not split.
"""

from __future__ import annotations

from tilewright.families.mixed_gemm.config import MixedGemmConfig, MixedGemmFacts

CONFIG, FACTS = MixedGemmConfig, MixedGemmFacts
