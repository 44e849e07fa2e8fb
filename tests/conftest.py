"""What holds for all tests: settings of Hypothesis, and switches of the process that no test leaves on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import hypothesis
import pytest

# A loaded machine is slow: no example has a time by which it must be done.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def switches() -> Iterator[None]:
    """What planning (TILEWRIGHT_JIT) and measuring beside torch (TF32) set for the life of their process."""
    jit = os.environ.get("TILEWRIGHT_JIT")
    yield
    if jit is None:
        os.environ.pop("TILEWRIGHT_JIT", None)
    else:
        os.environ["TILEWRIGHT_JIT"] = jit
    if torch := sys.modules.get("torch"):
        torch.backends.cuda.matmul.allow_tf32 = False
