"""What `hc_prenorm` is compared with on a GPU, and how closely."""

from __future__ import annotations

import torch

ELEMENT_ERROR = 1e-3  # of one element, of the root mean square of all


def compare(found: torch.Tensor, wanted: torch.Tensor, what: str) -> None:
    """DeepGEMM's threshold, and the largest error of one element."""
    x, y = found.double(), wanted
    assert not bool(x.isnan().any()), f"{what}: NaN, an element was not written or poison was read"
    difference = 1 - float(2 * (x * y).sum() / (x * x + y * y).sum())
    largest = float((x - y).abs().max() / y.square().mean().sqrt())
    numbers = f"calc_diff {difference:.1e}, largest error {largest:.1e}"
    assert difference < 1e-8, f"{what}: {numbers}"
    assert largest < ELEMENT_ERROR, f"{what}: {numbers}"
