"""Quantising to NVFP4, MXFP4, MXFP8 and FP8 in blocks of 128, and back: kernels of our own."""

from __future__ import annotations

from tilewright_generator.families.family import Family
from tilewright_generator.families.quantize.config import QuantizeConfig
from tilewright_generator.families.quantize.kernel import (
    build,
    facts,
    kernel_name,
    summary,
    template,
    variables,
)
from tilewright_generator.families.quantize.rules import RULES

FAMILY = Family(
    name="quantize",
    config=QuantizeConfig,
    rules=RULES,
    kernel_name=kernel_name,
    facts=facts,
    variables=variables,
    build=build,
    template=template,
    summary=summary,
)
