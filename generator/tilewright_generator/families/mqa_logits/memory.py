"""Threads, registers and shared memory of a thread block, as `mqa_logits/kernel.hpp` lays them out.

Every generated file asserts threads and shared memory against the compiler's.
"""

from __future__ import annotations

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
    queries = columns(config) * config.head_dim + weights
    return _QUERY_STAGES * (queries + BARRIER) + config.stages * (TILE * (config.head_dim + 4) + BARRIER)


def registers(config: MqaLogitsConfig) -> int:
    """Of a thread: products (with mma.sync, of one piece) and weights."""
    products = columns(config) // 2
    return products // (config.pieces if config.mma == "mma_sync" else 1) + columns(config) // 4
