"""The TF32 product and the sums of squares before a norm of hyper-connections: kernels of our own."""

from __future__ import annotations

from tilewright_generator.families.family import Family
from tilewright_generator.families.hc_prenorm import kernel
from tilewright_generator.families.hc_prenorm.config import PrenormConfig
from tilewright_generator.families.hc_prenorm.rules import RULES

FAMILY = Family.of("hc_prenorm", PrenormConfig, RULES, kernel)
