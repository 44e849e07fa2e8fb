"""What the model of lean kernels leaves unexplained, learnt from the times that it is fitted to.

The mechanisms of `cost_lean` put a tactic within 5 % of its time, and which of two they wrong depends on
several things at once: the cluster, how full the last wave is, what the loop waits for. Trees have learnt by
how much (`benchmarks/learn_lean_model.py`, which writes them beside this file): the logarithm of what an
estimate is multiplied by, from the facts of a kernel and a tactic. It is bounded, so that a problem unlike
all that were timed is not far from what the mechanisms say.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import exp

from tilewright.ops.common.trees import Trees

LEAST_N = 17  # where anything was learnt
UNIT = 1e-4  # of a tree's answers
MOST = 0.35  # of the logarithm of what an estimate is multiplied by


@cache
def _trees() -> Trees:
    from tilewright.ops.gemm.learnt_weights import TREES  # noqa: PLC0415 (read when a problem first asks)

    return Trees(TREES)


def shares(rows: Sequence[Sequence[float]]) -> list[float]:
    """What the estimates of tactics with such facts are multiplied by."""
    return [exp(max(-MOST, min(MOST, found * UNIT))) for found in _trees().answers(rows)]
