"""What the model of lean kernels leaves unexplained, learnt from the times that it is fitted to.

The mechanisms of `cost_lean` put a tactic within 5 % of its time, and which of two they wrong depends on
several things at once: the cluster, how full the last wave is, what the loop waits for. A network of one
hidden layer has learnt by how much (`benchmarks/learn_lean_model.py`, which writes the weights beside this
file): estimate * exp(sum of OUT tanh(OF_KERNEL facts of the kernel + OF_TACTIC facts of the tactic + BIAS)).
What it answers is bounded, so that a problem unlike all that were timed is not far from what the mechanisms
say.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, tanh
from operator import mul

from tilewright.ops.gemm.learnt_weights import BIAS, OF_KERNEL, OF_TACTIC, OUT

LEAST_EXTENT = 64  # of m and n, where anything was learnt
MOST_SECONDS = 4.5e-5  # that tensor cores or memory take at least
MOST = 0.25  # of the logarithm of what an estimate is multiplied by


class Share:
    """What the estimates of one kernel are multiplied by; what is known of it is weighed once."""

    def __init__(self, of_kernel: Sequence[float]) -> None:
        self._start = [
            bias + sum(map(mul, weights, of_kernel)) for bias, weights in zip(BIAS, OF_KERNEL, strict=True)
        ]

    def of(self, of_tactic: Sequence[float]) -> float:
        found = sum(
            out * tanh(start + sum(map(mul, weights, of_tactic)))
            for out, start, weights in zip(OUT, self._start, OF_TACTIC, strict=True)
        )
        return exp(max(-MOST, min(MOST, found)))
