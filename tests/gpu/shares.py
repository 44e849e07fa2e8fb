"""Deals the tests out to processes that run beside each other: TILEWRIGHT_SHARE=3/24 is the third of 24.

    for i in $(seq 24); do
      CUDA_VISIBLE_DEVICES=$((i % 2)) TILEWRIGHT_SHARE=$i/24 TILEWRIGHT_RECORD=FILE pytest tests/gpu &
    done; wait

All tests of a kernel are one process's, one kernel after the other, so that an interrupted process (SIGINT)
keeps rows of the kernels that it was through with. Tests of no kernel are dealt by their names.
"""

from __future__ import annotations

import re
import zlib

import pytest

SHARE = "TILEWRIGHT_SHARE"


def deal(items: list[pytest.Item], share: str) -> list[pytest.Item]:
    """Leaves those of a share, in place; answers the others. UsageError: no share."""
    numbers = re.fullmatch(r"(\d+)/(\d+)", share)
    place, count = map(int, numbers.groups()) if numbers else (0, 0)
    if not 1 <= place <= count:
        raise pytest.UsageError(f"{SHARE}={share}: I/N is wanted, I from 1 to N")
    mine = [item for item in items if _number(item) % count == place - 1]
    kept = set(map(id, mine))
    others = [item for item in items if id(item) not in kept]
    items[:] = sorted(mine, key=_number)
    return others


def _number(item: pytest.Item) -> int:
    """The same of all tests of a kernel, in every process."""
    kernel = getattr(getattr(item, "callspec", None), "params", {}).get("kernel")
    return zlib.crc32((kernel if isinstance(kernel, str) else item.nodeid).encode())
