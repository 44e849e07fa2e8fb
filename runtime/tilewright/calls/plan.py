"""Plans: how a call is carried out.

A plan is made for each combination of types, shapes, strides and options, and is kept. Carrying it out looks
nothing up and decides nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from tilewright.architectures.device import DeviceProperties
from tilewright.calls import memory
from tilewright.calls.gpus import several_devices
from tilewright.calls.guards import overflow, refuse_negated
from tilewright.context import Context
from tilewright.declarations.arguments import launchable, packed
from tilewright.declarations.declaration import Interface
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.errors import AlignmentError, LaunchError, NoKernelError
from tilewright.libraries import workspace
from tilewright.libraries.launcher_cache import CachedLaunchers
from tilewright.libraries.library import (
    ALIASED,
    MISALIGNED,
    MOST_OPERANDS,
    OVERFLOW,
    UNPLANNED,
    Launcher,
    Library,
)
from tilewright.selection.family import Family
from tilewright.selection.fitting import blocks_of
from tilewright.selection.kernels import Problem

log = logging.getLogger("tilewright")

INVALID_CLUSTER_SIZE = 912  # cudaErrorInvalidClusterSize: no cluster of the launch ever runs


class Plan:
    """Base of plans. `run` takes a tuple of the launcher's arguments without the workspace: the tensors of
    `operands`, then numbers. The op makes D before."""

    quick: Launcher | None = None
    """The launcher, once it is made, where a launch is all that a call needs: no workspace, one GPU."""
    recheck: Callable[..., None] | None = None
    """A check of each call's numbers."""
    fills: bool = False
    """Whether the op has to complete a call's operands (`Op.fill`)."""
    cached: CachedLaunchers | None = None
    """The launchers among which its own is tried before a key is made; None until it is added to them."""

    def __init__(self, arguments: Any, operands: tuple[str, ...]) -> None:
        """`operands`: names of the op's arguments, in the launcher's order."""
        self.arguments = arguments
        self.operands = operands
        self.used = False  # since the context last looked for a plan to forget
        # What D is, where the op makes it.
        self.shape: tuple[int, ...] = arguments.shape
        self.strides = torch.empty(self.shape, device="meta").stride()  # empty_strided is quicker than empty
        self.dtype: torch.dtype = arguments.dtype
        self.device: torch.device = arguments.device

    def run(self, call: tuple[Any, ...]) -> None:
        raise NotImplementedError

    def tensors(self, call: tuple[Any, ...]) -> Mapping[str, torch.Tensor]:
        """The tensors that a call passes, by name."""
        named = zip(self.operands, call, strict=False)
        return {name: tensor for name, tensor in named if tensor is not None}

    def check_tensors(self, call: tuple[Any, ...]) -> None:
        """Raises UnplannedError for a tensor on another device, ArgumentTypeError for a negated view: a key
        has one operand's device, and no negative bit. The binding checks a launch; this is for plans that
        compute or copy with torch, which takes such tensors."""
        operands = self.tensors(call).items()
        tensors = {name: operand for name, operand in operands if isinstance(operand, torch.Tensor)}
        for name, tensor in tensors.items():
            if tensor.device != self.device:
                raise UnplannedError(f"{name} is on {tensor.device}, the plan's operands on {self.device}")
        refuse_negated(tensors)


class EmptyPlan(Plan):
    """A plan for m, n or a batch of 0: nothing is computed."""

    def run(self, call: tuple[Any, ...]) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Launch:
    """A tactic bound to its library, for one problem on one GPU."""

    interface: Interface
    problem: Problem
    tactic: Tactic
    library: Library
    arguments: bytes  # as `packed` returns them
    alignments: Mapping[str, int]
    workspace_bytes: int

    def launcher(
        self,
        operands: Sequence[torch.Tensor | None],
        passed: Mapping[str, Any] | None = None,
        numbers: Mapping[str, float] | None = None,
        *,
        guarded: bool = True,
    ) -> Launcher:
        """What launches for operands that lie as these do. `passed`, `numbers` and `guarded`: as for
        `launchable`."""
        described = launchable(
            self.interface, self.problem, self.arguments,
            tensors=operands, alignments=self.alignments, passed=passed, numbers=numbers, guarded=guarded,
        )  # fmt: skip
        return self.library.launcher(self.tactic.kernel, described)


def bind(
    context: Context,
    family: Family[Any],
    problem: Problem,
    device: DeviceProperties,
    tactic: Tactic | None,
    *,
    interface: Interface,
    alignments: Callable[[KernelRecord], Mapping[str, int]] = lambda record: {},
) -> Launch:
    """Selects and loads a kernel, which is built now if necessary. `tactic` overrules the selection.

    `alignments`: the bytes that a kernel requires of operands' addresses, if it requires more than its
    interface. Raises what `Context.load` raises, and NoKernelError if the kernel refuses the problem.
    """
    choice, library = context.load(family, problem, device, tactic)
    name = choice.record.name
    arguments = packed(interface, problem, choice.tactic, device.sm_count)
    if not library.can_implement(name, arguments):
        raise NoKernelError(
            f"internal error, please report: {choice.tactic} refuses {problem}, which its table accepts"
        )
    workspace_bytes = library.workspace_bytes(name, arguments)
    required = alignments(choice.record)
    return Launch(interface, problem, choice.tactic, library, arguments, required, workspace_bytes)


class DirectPlan(Plan):
    """One launch on the caller's tensors. The launcher is made by the first call, for its layouts."""

    def __init__(self, arguments: Any, bound: Launch, *, guarded: bool = True) -> None:
        """`guarded`: as for `launchable`. Each call of a plan that is not has looked for negated views."""
        super().__init__(arguments, bound.interface.names)
        self.guarded = guarded
        self.problem = bound.problem
        self.tactic = bound.tactic
        self.bound = bound
        self.launch: Launcher | None = None
        self.workspace_bytes = bound.workspace_bytes
        self.workspace = workspace.maker(bound.workspace_bytes, self.device)

    def run(self, call: tuple[Any, ...]) -> None:
        """Raises MisalignedError, ArgumentError for aliasing, LaunchError."""
        if (launch := self.launch) is None:
            launch = self.fix(call[: len(self.operands)])
        status = launch(*call, self.workspace())
        if status:
            self.fail(status)

    def fix(self, operands: Sequence[torch.Tensor | None]) -> Launcher:
        """Makes the launcher, for operands that lie as these do."""
        self.launch = launch = self.bound.launcher(operands, guarded=self.guarded)
        if not self.workspace_bytes and not several_devices():
            self.quick = launch
        return launch

    def fail(self, status: int) -> NoReturn:
        """Turns a launcher's status into an error."""
        count = len(self.operands)
        if status <= ALIASED:
            written, index = divmod(ALIASED - status, MOST_OPERANDS)
            raise memory.aliased(self.operands[index], self.operands[written])
        if MISALIGNED >= status > MISALIGNED - count:
            raise MisalignedError(self.operands[MISALIGNED - status])
        if UNPLANNED >= status > UNPLANNED - count:
            raise UnplannedError(
                f"{self.operands[UNPLANNED - status]} has another layout than the plan was made for"
            )
        if OVERFLOW >= status > OVERFLOW - MOST_OPERANDS:
            raise overflow(self.bound.interface.numbers[OVERFLOW - status].name)
        if status == INVALID_CLUSTER_SIZE:
            raise self._no_room()
        if status > 0:
            reason = f"CUDA error {status} ({_cuda_error(status)})"
        else:
            reason = {-1: "the kernel does not take the problem", -2: "no workspace"}.get(
                status, f"status {status}"
            )
        raise LaunchError(f"{self.tactic}: {reason}, for {self.problem}")

    def _no_room(self) -> LaunchError:
        blocks = blocks_of(self.tactic)
        return LaunchError(
            f"{self.tactic}: the SMs that the stream's context has on {self.device} run no cluster of "
            f"{blocks} thread blocks, for {self.problem}",
            hint="Pass a tactic with a smaller cluster or fewer splits, or give the green context, the MIG "
            "slice or the share of MPS more SMs.",
        )


class UnplannedError(ValueError):
    """An operand differs from the planned one in something that the plan's key leaves out. The op's checks
    then say what differs."""


class MisalignedError(AlignmentError):
    """An address is less aligned than the kernel requires. The op then makes another plan: for another
    kernel, or with copies."""

    def __init__(self, argument: str) -> None:
        super().__init__(argument, "its address is not a multiple of the bytes that the kernel expects")


def _cuda_error(status: int) -> str:
    try:
        return str(torch.cuda.cudart().cudaGetErrorString(status))
    except Exception:  # the number is in the message; its text is a courtesy
        return "no text"
