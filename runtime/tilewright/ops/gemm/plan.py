"""How a call is carried out. A plan is made once for a combination of types, shapes, strides and
options, and remembered; carrying it out looks nothing up and decides nothing."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import torch

from tilewright import workspace
from tilewright.errors import ArgumentError, LaunchError
from tilewright.library import Launcher
from tilewright.ops.gemm.arguments import OUTPUT_DTYPES, Arguments
from tilewright.ops.gemm.placement import Placement
from tilewright.ops.gemm.problem import TMA_BYTES, Problem
from tilewright.ops.gemm.tactics import Tactic

log = logging.getLogger("tilewright")

Optional: TypeAlias = torch.Tensor | None
# The statuses of tilewright/gemm/binding.hpp, whose operands have these names.
_MISALIGNED, _ALIASED = -16, -32
_STATUS_OPERANDS = ("a", "b", "c", "out", "bias", "scale_a", "scale_b")


class Plan:
    """Base: knows what D looks like.

    `run` takes (a, b, c, out, bias, scale_a, scale_b, alpha, beta), the tensors but a and b optional.
    """

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments
        self.used = False  # since the context last looked for a plan to forget
        self.shape = arguments.shape
        self.dtype = OUTPUT_DTYPES[arguments.d]
        self.integer = arguments.d == "s32"
        self.device = arguments.device

    def run(self, *call: Any) -> torch.Tensor:
        raise NotImplementedError


class EmptyPlan(Plan):
    """m, n or the batch is 0: there is nothing to compute."""

    def run(self, *call: Any) -> torch.Tensor:
        out: Optional = call[3]
        return torch.empty(self.shape, dtype=self.dtype, device=self.device) if out is None else out


class DegeneratePlan(Plan):
    """k is 0: D = activation(beta * C + bias), computed by torch in the kernels' compute type."""

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._compute = torch.int32 if self.integer else torch.float32
        self._activation: Callable[[torch.Tensor], torch.Tensor] = {
            "none": lambda x: x,
            "relu": torch.relu,
            "gelu": torch.nn.functional.gelu,
            "silu": torch.nn.functional.silu,
        }[arguments.activation]

    def run(self, *call: Any) -> torch.Tensor:
        _, _, c, out, bias, _, _, _, beta = call
        value = torch.zeros(self.shape, dtype=self._compute, device=self.device)
        if c is not None and beta != 0:
            value += c.to(self._compute) * (int(beta) if self.integer else beta)
        if bias is not None:
            value += bias.to(self._compute)
        value = self._activation(value)
        result: torch.Tensor = value.to(self.dtype) if out is None else out.copy_(value)
        return result


class DirectPlan(Plan):
    """One launch on the caller's tensors."""

    def __init__(
        self, arguments: Arguments, problem: Problem, tactic: Tactic, launch: Launcher, workspace_bytes: int
    ) -> None:
        super().__init__(arguments)
        self.problem = problem
        self.tactic = tactic
        self.launch = launch
        self.workspace_bytes = workspace_bytes
        self._index = arguments.device.index if arguments.device.index is not None else -1

    def run(self, *call: Any) -> torch.Tensor:
        """Raises MisalignedError, ArgumentError for aliasing, LaunchError."""
        a, b, c, out, bias, scale_a, scale_b, alpha, beta = call
        if out is None:
            out = torch.empty(self.shape, dtype=self.dtype, device=self.device)
        if not self.workspace_bytes:
            status = self.launch(a, b, c, out, bias, scale_a, scale_b, alpha, beta, None)
        else:
            status = self._launch_with_workspace(a, b, c, out, bias, scale_a, scale_b, alpha, beta)
        if status:
            self.fail(status)
        result: torch.Tensor = out
        return result

    def _launch_with_workspace(self, *arguments: Any) -> int:
        if self._index < 0:  # a described device: the kernels are the host's
            return self.launch(*arguments, workspace.on_host(self.workspace_bytes))
        slot = workspace.slot(self._index)
        with slot.lock:
            return self.launch(*arguments, slot.buffer(self.workspace_bytes))

    def fail(self, status: int) -> NoReturn:
        """Turns a launcher's status into an error."""
        if _ALIASED >= status > _ALIASED - len(_STATUS_OPERANDS):
            name = _STATUS_OPERANDS[_ALIASED - status]
            raise _aliased(name)
        if _MISALIGNED >= status > _MISALIGNED - len(_STATUS_OPERANDS):
            raise MisalignedError(_STATUS_OPERANDS[_MISALIGNED - status])
        if status > 0:
            reason = f"CUDA error {status} ({_cuda_error(status)})"
        else:
            reason = {-1: "the kernel does not take the problem", -2: "no workspace"}.get(
                status, f"status {status}"
            )
        raise LaunchError(f"{self.tactic}: {reason}, for {self.problem}")


class MisalignedError(ArgumentError):
    """An address is not what TMA wants; the op answers with a plan that copies."""

    def __init__(self, argument: str) -> None:
        super().__init__(argument, f"its address is not a multiple of {TMA_BYTES} bytes")


class PaddedPlan(Plan):
    """Copies what the kernels cannot read as it lies, runs the op on the copies, copies D back.

    `inner` is `gemm` itself, on a problem that needs no copies.
    """

    def __init__(
        self, arguments: Arguments, placement: Placement, inner: Callable[..., torch.Tensor]
    ) -> None:
        super().__init__(arguments)
        self._placement = placement
        self._inner = inner

    def run(self, *call: Any) -> torch.Tensor:
        a, b, c, out, bias, scale_a, scale_b, alpha, beta = call
        place, n = self._placement, self.arguments.n
        if out is not None:
            _check_aliasing(out, a=a, b=b, c=c, bias=bias, scale_a=scale_a, scale_b=scale_b)
        if "a" in place.copies:
            a = padded(a, a.shape[-2], place.k)
        if "b" in place.copies:
            b = padded(b.mT, place.n, place.k).mT
        if c is not None and "c" in place.copies:
            c = padded(c, c.shape[-2], place.n)
        if bias is not None and "bias" in place.copies:
            bias = padded(bias.unsqueeze(0), 1, place.n).squeeze(0)
        elsewhere = "out" in place.copies
        target = None if elsewhere else out
        target = self._inner(
            a, b, out=target, c=c, alpha=alpha, beta=beta, scale_a=scale_a, scale_b=scale_b, bias=bias
        )
        if not elsewhere:
            return target
        narrow = target[..., :n]
        result: torch.Tensor = narrow.contiguous() if out is None else out.copy_(narrow)
        return result


def _check_aliasing(out: torch.Tensor, **tensors: Optional) -> None:
    for name, tensor in tensors.items():
        if tensor is not None and overlap(tensor, out) and not (name == "c" and _same(tensor, out)):
            raise _aliased(name)


def _same(c: torch.Tensor, out: torch.Tensor) -> bool:
    """Whether C lies where D does: the strides of single rows mean nothing."""
    return c.data_ptr() == out.data_ptr() and _steps(c) == _steps(out)


def _steps(tensor: torch.Tensor) -> list[tuple[int, int]]:
    return [pair for pair in zip(tensor.shape, tensor.stride(), strict=True) if pair[0] > 1]


def _aliased(name: str) -> ArgumentError:
    return ArgumentError(
        "out",
        f"it overlaps {name}, or lies among its elements so that it may; memory of its own is wanted "
        "(only c may be out itself)",
    )


def padded(matrix: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """A row-major copy of [.., r, c] as [.., rows, columns], zeros beyond r and c."""
    shape = (*matrix.shape[:-2], rows, columns)
    whole = tuple(matrix.shape[-2:]) == (rows, columns)
    make = torch.empty if whole else torch.zeros
    copy = make(shape, dtype=matrix.dtype, device=matrix.device)
    copy[..., : matrix.shape[-2], : matrix.shape[-1]].copy_(matrix)
    return copy


def overlap(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether two tensors may have a byte in common: as `overlap` of tilewright/binding.hpp judges."""
    apart = y.data_ptr() + _span(y) <= x.data_ptr() or x.data_ptr() + _span(x) <= y.data_ptr()
    if apart or 0 in (_span(x), _span(y)):
        return False
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


def _cuda_error(status: int) -> str:
    try:
        return str(torch.cuda.cudart().cudaGetErrorString(status))
    except Exception:  # the number is in the message; its text is a courtesy
        return "no text"
