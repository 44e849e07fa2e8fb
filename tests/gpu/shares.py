"""Which tests a process runs: a share of all, or those of one kernel of each module.

Tests are dealt out to processes that run beside each other: TILEWRIGHT_SHARE=3/24 is the third of 24.

    for i in $(seq 24); do
      CUDA_VISIBLE_DEVICES=$((i % 2)) TILEWRIGHT_SHARE=$i/24 TILEWRIGHT_RECORD=FILE pytest tests/gpu &
    done; wait

All tests of a kernel are one process's, one kernel after the other, so that an interrupted process (SIGINT)
keeps rows of the kernels that it was through with. Tests of no kernel are dealt by their names.

TILEWRIGHT_HOSTS=MODULE,... leaves the tests of one kernel of each of these modules: the kernel with the most
tests. They renew what is recorded of the modules' host code.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Mapping

import pytest

SHARE = "TILEWRIGHT_SHARE"
HOSTS = "TILEWRIGHT_HOSTS"


def deal(items: list[pytest.Item], share: str) -> list[pytest.Item]:
    """Leaves those of a share, in place; answers the others. UsageError: no share."""
    numbers = re.fullmatch(r"(\d+)/(\d+)", share)
    place, count = map(int, numbers.groups()) if numbers else (0, 0)
    if not 1 <= place <= count:
        raise pytest.UsageError(f"{SHARE}={share}: expected I/N, I from 1 to N")
    others = [item for item in items if _number(item) % count != place - 1]
    items[:] = sorted((item for item in items if _number(item) % count == place - 1), key=_number)
    return others


def represent(items: list[pytest.Item], modules: str, module_of: Mapping[str, str]) -> list[pytest.Item]:
    """Leaves the tests of one kernel of each of the modules, in place; answers the others. UsageError: a
    module has no tests."""
    tests: dict[str, Counter[str]] = {module: Counter() for module in modules.split(",")}
    for item in items:
        kernel = kernel_of(item)
        if kernel is not None and (module := module_of.get(kernel)) in tests:
            tests[module][kernel] += 1
    if without := [module for module, counts in tests.items() if not counts]:
        raise pytest.UsageError(f"{HOSTS}={modules}: no test takes a kernel of {', '.join(without)}")
    kernels = {max(sorted(counts), key=counts.__getitem__) for counts in tests.values()}
    others = [item for item in items if kernel_of(item) not in kernels]
    items[:] = [item for item in items if kernel_of(item) in kernels]
    return others


def kernel_of(item: pytest.Item) -> str | None:
    """The kernel that a test takes as its parameter."""
    kernel = getattr(getattr(item, "callspec", None), "params", {}).get("kernel")
    return kernel if isinstance(kernel, str) else None


def _number(item: pytest.Item) -> int:
    """The same of all tests of a kernel, in every process."""
    return zlib.crc32((kernel_of(item) or item.nodeid).encode())
