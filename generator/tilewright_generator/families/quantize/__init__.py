"""Quantising to NVFP4, MXFP4, MXFP8 and FP8 in blocks of 128, and back: kernels of our own."""

from __future__ import annotations

from tilewright_generator.families.family import Family
from tilewright_generator.families.quantize import kernel
from tilewright_generator.families.quantize.config import QuantizeConfig
from tilewright_generator.families.quantize.rules import RULES

FAMILY = Family.of("quantize", QuantizeConfig, RULES, kernel)
