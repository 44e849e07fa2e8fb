"""FP32 scales into the layouts that kernels read: a kernel of our own."""

from __future__ import annotations

from tilewright_generator.families.family import Family
from tilewright_generator.families.scale_columns import kernel
from tilewright_generator.families.scale_columns.config import ScaleColumnsConfig

FAMILY = Family.of("scale_columns", ScaleColumnsConfig, (), kernel)  # every configuration is legal
