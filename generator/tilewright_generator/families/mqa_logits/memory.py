"""Threads, registers and shared memory of a thread block, as `mqa_logits/kernel.hpp` lays them out.

Every generated file asserts threads and shared memory against the compiler's.
"""

from __future__ import annotations

from tilewright.types import bits
from tilewright_generator.families.mqa_logits.config import MqaLogitsConfig, columns
from tilewright_generator.families.shared import BARRIER

TILE = 64  # keys
SCHEDULE_THREADS = 1024
_QUERY_STAGES = 2
_ALIGNMENT = 128  # bytes, of where TMA writes


def threads(config: MqaLogitsConfig) -> int:
    """Of a thread block: a warpgroup loads."""
    return SCHEDULE_THREADS if config.form == "schedule" else (config.warpgroups + 1) * 128


def shared_bytes(config: MqaLogitsConfig) -> int:
    """Bytes of dynamic shared memory of a thread block: queries with weights, keys with scales, barriers."""
    if config.form == "schedule":
        return 0
    weights = -(-columns(config) * 4 // _ALIGNMENT) * _ALIGNMENT
    row = config.head_dim * bits(config.q) // 8
    queries = columns(config) * row + weights * (1 if config.q == "e4m3" else 2)  # their scales, too
    if decodes(config):
        queries += columns(config) * config.head_dim * 2
    return _QUERY_STAGES * (queries + BARRIER) + config.stages * (TILE * (row + 4) + BARRIER)


def decodes(config: MqaLogitsConfig) -> bool:
    """Whether FP4 becomes BF16 before it is multiplied."""
    return config.q == "mxfp4" and config.mma != "block_scaled"


def registers(config: MqaLogitsConfig) -> int:
    """Of a thread: products (with mma.sync, of one piece), weights, and decoded keys."""
    products = columns(config) // 2 // (1 if config.mma == "wgmma" else config.pieces)
    return products + columns(config) // 4 + config.head_dim // 4 * decodes(config)
