"""How a quantising call is carried out.

Calls are (x, weight, global_scale, rows_valid, data, scales, epsilon), all tensors but the last, of which x,
data and scales are always there: the op has made those that are written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilewright import blockwise_scales, row_shuffle
from tilewright.ops.common import memory, plan
from tilewright.ops.common.formats import as_bytes
from tilewright.ops.quantize.arguments import Arguments
from tilewright.ops.quantize.problem import M_MAJOR


class EmptyPlan(plan.EmptyPlan):
    """There are no elements, and no scales."""

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.operands = arguments.request.operands


class CopyingPlan(plan.Plan):
    """Copies what the kernels cannot read as it lies, or want in another order, runs the op on the copies,
    and copies back what that has written.

    `again` is the op with the call's options, for a problem that needs no copies.
    """

    def __init__(self, arguments: Arguments, copies: frozenset[str], again: Callable[..., Any]) -> None:
        super().__init__(arguments)
        self.operands = arguments.request.operands
        self.copies = copies
        self._again = again

    def run(self, call: tuple[Any, ...]) -> None:
        self.check_devices(call)
        given = {name: x for name, x in zip(self.operands, call, strict=False) if x is not None}
        written = [name for name in given if name in ("out", "out_scales")]
        for name in written:
            others = {other: tensor for other, tensor in given.items() if other != name}
            memory.check_aliasing(name, given[name], others)
        used = {name: self._copy(name, given[name]) if name in self.copies else given[name] for name in given}
        arguments: Arguments = self.arguments
        if arguments.request.shuffle:
            used["x"] = row_shuffle.shuffle_rows(as_bytes(used["x"])).view(used["x"].dtype)
            if arguments.global_scale == "row":
                per_row = used["global_scale"].reshape(-1, arguments.m, 1)
                used["global_scale"] = row_shuffle.shuffle_rows(per_row).reshape(-1)
        if arguments.request.fusion == "rmsnorm":
            used["eps"] = call[-1]
        self._again(**used)
        for name in written:
            if name in self.copies:
                self._restore(name, given[name], used[name])

    def _copy(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        if self._m_major(name):
            return blockwise_scales.m_major(tensor)
        return as_bytes(tensor).clone(memory_format=torch.contiguous_format).view(tensor.dtype)

    def _restore(self, name: str, tensor: torch.Tensor, copy: torch.Tensor) -> None:
        """Puts what was written to a copy where it belongs, with the padding of m_major scales."""
        if self._m_major(name):
            tensor, copy = blockwise_scales.with_padding(tensor), blockwise_scales.with_padding(copy)
        as_bytes(tensor).copy_(as_bytes(copy))

    def _m_major(self, name: str) -> bool:
        return name in ("scales", "out_scales") and self.arguments.layout in M_MAJOR
