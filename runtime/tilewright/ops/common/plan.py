"""How a call is carried out. A plan is made once for a combination of types, shapes, strides and
options, and remembered; carrying it out looks nothing up and decides nothing."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from tilewright import workspace
from tilewright.context import Context
from tilewright.device import DeviceProperties
from tilewright.errors import ArgumentError, LaunchError, NoKernelError
from tilewright.library import Launcher, Library
from tilewright.ops.common import memory
from tilewright.ops.common.calls import several_devices
from tilewright.ops.common.family import Family, Problem
from tilewright.ops.common.tactics import Tactic
from tilewright.table import KernelRecord

log = logging.getLogger("tilewright")

# The statuses of tilewright/matrix_binding.hpp.
_MISALIGNED, _ALIASED, UNPLANNED = -16, -32, -48


class Plan:
    """Base. `run` takes what the family's launcher takes but the workspace, as a tuple: the tensors of
    `operands`, then numbers. The op has made D."""

    operands: tuple[str, ...] = ()  # names of the op's arguments, in the launcher's order
    quick: Launcher | None = None
    """The launcher, where a launch is all there is to do: no workspace, one GPU, no check of its own."""

    def __init__(self, arguments: Any) -> None:
        self.arguments = arguments
        self.used = False  # since the context last looked for a plan to forget
        # What D is, where the op makes it.
        self.shape: tuple[int, ...] = arguments.shape
        self.strides = torch.empty(self.shape, device="meta").stride()  # empty_strided is quicker than empty
        self.dtype: torch.dtype = arguments.dtype
        self.device: torch.device = arguments.device

    def run(self, call: tuple[Any, ...]) -> None:
        raise NotImplementedError

    def tensors(self, call: tuple[Any, ...]) -> Mapping[str, torch.Tensor]:
        """The tensors of a call that are there, by name."""
        named = zip(self.operands, call, strict=False)
        return {name: tensor for name, tensor in named if tensor is not None}


class EmptyPlan(Plan):
    """m, n or the batch is 0: there is nothing to compute."""

    def run(self, call: tuple[Any, ...]) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Launch:
    """A tactic bound to its library, for one problem."""

    problem: Problem
    tactic: Tactic
    record: KernelRecord
    library: Library
    launcher: Launcher
    workspace_bytes: int


def bind(
    context: Context, family: Family[Any], problem: Problem, device: DeviceProperties, tactic: Tactic | None
) -> Launch:
    """Selects and loads a kernel, which is built now if need be; `tactic` overrules the selection.

    Raises as `Context.load` does, and NoKernelError where the kernel refuses the problem.
    """
    choice, library = context.load(family, problem, device, tactic)
    name, sizes = choice.record.name, problem.sizes
    options = problem.options(choice.tactic, device.sm_count)
    if not library.can_implement(name, sizes, options):
        raise NoKernelError(f"{choice.tactic} fits {problem} by its table and refuses it: a rule is missing")
    launcher = library.launcher(name, options)
    workspace_bytes = library.workspace_bytes(name, sizes, options)
    return Launch(problem, choice.tactic, choice.record, library, launcher, workspace_bytes)


class DirectPlan(Plan):
    """One launch on the caller's tensors."""

    def __init__(self, arguments: Any, bound: Launch) -> None:
        super().__init__(arguments)
        self.problem = bound.problem
        self.tactic = bound.tactic
        self.library = bound.library
        self.launch = bound.launcher
        self.workspace_bytes = bound.workspace_bytes
        if not bound.workspace_bytes and type(self).run is DirectPlan.run and not several_devices():
            self.quick = bound.launcher
        # On a described device the kernels are the host's.
        self._workspace: Callable[[int], torch.Tensor] = (
            functools.partial(workspace.on_device, device=self.device)
            if self.device.type == "cuda"
            else workspace.on_host
        )

    def run(self, call: tuple[Any, ...]) -> None:
        """Raises MisalignedError, ArgumentError for aliasing, LaunchError."""
        status = self.start(call) if self.workspace_bytes else self.launch(*call, None)
        if status:
            self.fail(status)

    def start(self, call: tuple[Any, ...]) -> int:
        """Launches with a workspace; answers the launcher's status."""
        return self.launch(*call, self._workspace(self.workspace_bytes))

    def fail(self, status: int) -> NoReturn:
        """Turns a launcher's status into an error."""
        count = len(self.operands)
        if _ALIASED >= status > _ALIASED - count:
            raise memory.aliased(self.operands[_ALIASED - status])
        if _MISALIGNED >= status > _MISALIGNED - count:
            raise MisalignedError(self.operands[_MISALIGNED - status])
        if status > 0:
            reason = f"CUDA error {status} ({_cuda_error(status)})"
        else:
            reason = {-1: "the kernel does not take the problem", -2: "no workspace"}.get(
                status, f"status {status}"
            )
        raise LaunchError(f"{self.tactic}: {reason}, for {self.problem}")


class MisalignedError(ArgumentError):
    """An address is not what the kernel wants; the op answers with a plan that copies, or another kernel."""

    def __init__(self, argument: str) -> None:
        super().__init__(argument, "its address is not a multiple of what the kernel wants")


def _cuda_error(status: int) -> str:
    try:
        return str(torch.cuda.cudart().cudaGetErrorString(status))
    except Exception:  # the number is in the message; its text is a courtesy
        return "no text"
