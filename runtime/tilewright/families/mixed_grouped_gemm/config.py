"""One `mixed_grouped_gemm` kernel: the fields are those of `mixed_gemm`.

How rows are grouped, and the clusters of a wgmma kernel, are arguments of a launch. Thread blocks do not
divide k.
"""

from __future__ import annotations

from tilewright.families.mixed_gemm.config import MixedGemmConfig, MixedGemmFacts

CONFIG, FACTS = MixedGemmConfig, MixedGemmFacts
