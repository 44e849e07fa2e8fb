"""Logits of many queries' heads with one head of keys (MQA), weighted and summed: kernels of our own."""

from __future__ import annotations

from tilewright_generator.families.family import Family
from tilewright_generator.families.mqa_logits import kernel
from tilewright_generator.families.mqa_logits.config import MqaLogitsConfig
from tilewright_generator.families.mqa_logits.rules import RULES

FAMILY = Family.of("mqa_logits", MqaLogitsConfig, RULES, kernel)
