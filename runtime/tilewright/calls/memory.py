"""Where tensors lie: whether two have bytes in common, and copies that lie better."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TypeAlias

import torch

from tilewright.declarations.matrices import layout_of
from tilewright.errors import ArgumentError
from tilewright.formats.dtypes import as_bytes

Optional: TypeAlias = torch.Tensor | None


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether some stride is not larger than the reach of all smaller strides, so that elements may overlap.
    Dimensions come in any order."""
    reach = 0
    for step, extent in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if extent > 1 and step <= reach:
            return True
        reach += (extent - 1) * step
    return False


def overlap(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether two tensors may have a byte in common: as `overlap` of tilewright/binding.hpp judges."""
    apart = y.data_ptr() + _span(y) <= x.data_ptr() or x.data_ptr() + _span(x) <= y.data_ptr()
    if apart or 0 in (_span(x), _span(y)):
        return False
    if max(x.dim(), y.dim()) > 8:
        return True
    (run_x, step_x), (run_y, step_y) = _runs(x), _runs(y)
    step = math.gcd(step_x, step_y)
    if step == 0:
        return True  # two intervals
    distance = (y.data_ptr() - x.data_ptr()) % step
    return bool(distance < run_x or distance + run_y > step)


def _runs(tensor: torch.Tensor) -> tuple[int, int]:
    """Bytes of contiguous runs, and what their distances are multiples of (0: there is one run)."""
    run, step = tensor.element_size(), 0
    for stride, extent in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        distance = stride * tensor.element_size()
        if extent == 1:
            continue
        if distance == run and step == 0:
            run *= extent
        else:
            step = math.gcd(step, distance)
    return run, step


def _span(tensor: torch.Tensor) -> int:
    if tensor.numel() == 0:
        return 0
    last = sum((extent - 1) * step for extent, step in zip(tensor.shape, tensor.stride(), strict=True))
    return int((last + 1) * tensor.element_size())


def check_aliasing(
    written: str, out: torch.Tensor, tensors: Mapping[str, Optional], twins: Collection[str] = ()
) -> None:
    """Raises ArgumentError if a tensor overlaps `out`, the operand `written`. A twin may be the same tensor
    as `out`."""
    for name, tensor in tensors.items():
        if tensor is None or not overlap(tensor, out):
            continue
        same = tensor.data_ptr() == out.data_ptr() and layout_of(tensor) == layout_of(out)
        if not (same and name in twins):
            raise aliased(name, written)


def aliased(name: str, out_name: str = "out") -> ArgumentError:
    unless = ", unless it is c itself" if name == "c" else ""
    return ArgumentError(
        out_name,
        f"it overlaps {name}, or lies among its elements so that it may; expected memory of its own{unless}",
    )


def padded(matrix: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """A row-major copy of [.., r, c] as [.., rows, columns], zeros beyond r and c."""
    raw = as_bytes(matrix)
    shape = (*raw.shape[:-2], rows, columns)
    make = torch.empty if shape == raw.shape else torch.zeros
    copy = make(shape, dtype=raw.dtype, device=raw.device)
    copy[..., : raw.shape[-2], : raw.shape[-1]].copy_(raw)
    return copy.view(matrix.dtype)


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
