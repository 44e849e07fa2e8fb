"""Prepared calls: for a fixed problem, all is decided once.

    plan = tilewright.plan(tilewright.gemm, a, b, out=out, bias=bias)
    plan(a, b, out)

The op is routed, its tactic selected, its kernel built and loaded when the plan is made. A call of the plan
launches: it checks that the operands lie as they did (in the binding, where that costs next to nothing) and
what the op checks of every call.
"""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, ClassVar, NoReturn, TypeAlias

import torch

from tilewright.errors import ArgumentError, ArgumentTypeError, TilewrightError
from tilewright.library import Launcher
from tilewright.ops.common import calls
from tilewright.ops.common.custom_ops import special
from tilewright.ops.common.guards import dims, factor, refuse_gradients
from tilewright.ops.common.plan import UNPLANNED, DirectPlan, Plan


class Prepared:
    """What `plan` answers. A family's own adds `__call__`, which is quick, and turns to `carefully` where a
    call is not the usual one or something is wrong.

    Holds the operands that a call does not pass (c, bias, scales), and none that it does. Safe under threads,
    streams and CUDA graphs, as the op is.
    """

    passed: ClassVar[tuple[str, ...]] = ("a", "b", "out")  # what a call passes
    numbers: ClassVar[tuple[str, ...]] = ()  # what the launcher takes after the operands
    constants: ClassVar[Mapping[str, Any]] = {}  # what the launcher takes, and the op has not

    def __init__(
        self,
        op: Callable[..., Any],
        plan: Plan,
        given: Mapping[str, Any],
        check: Callable[[Mapping[str, Any]], Any],
    ) -> None:
        """`given`: a call's operands and numbers by name; `check` raises what is wrong with such,
        and answers them checked."""
        self.op = op
        self.plan = plan
        self.shape, self.strides = plan.shape, plan.strides
        self.dtype, self.device = plan.dtype, plan.device
        self.accumulates = given.get("c") is not None and given["c"] is given["out"]
        self.kept = {name: value for name, value in given.items() if name not in self.passed}
        if self.accumulates:
            self.kept["c"] = None
        held = (value for value in self.kept.values() if isinstance(value, torch.Tensor))
        self.needs_gradients = any(tensor.requires_grad for tensor in held)
        self._check = check
        whole = {**self.constants, **given}
        operands = [whole[name] for name in plan.operands]
        self._planned = tuple(map(_told, operands))
        self._types = tuple(map(_type, operands))
        self.launch: Launcher = _launcher(plan, tuple(map(_layout, operands)), self._types)

    def __repr__(self) -> str:
        tactic = f", {self.plan.tactic}" if isinstance(self.plan, DirectPlan) else ""
        name = self.op.__name__
        return f"<plan of tilewright.{name}: {dims(self.shape)} {self.dtype} on {self.device}{tactic}>"

    def check_made(self, changes: Mapping[str, Any]) -> None:
        """Raises where `out` may not be made: there would be nothing to add to."""
        if self.accumulates and "c" not in changes:
            raise ArgumentError("out", "it is None; the plan adds to it")

    def carefully(self, call: Mapping[str, Any], changes: Mapping[str, Any]) -> None:
        """Launches with what `call` brings and what is kept, but for `changes`; raises what is wrong."""
        for name in changes:
            if name not in self.kept:
                known = ", ".join((*self.passed, *self.kept))
                raise ArgumentTypeError(name, f"no plan's call takes it; {known} are wanted")
        given = {**self.constants, **self.kept, **call, **changes}
        for name in self.numbers:
            given[name] = factor(name, given[name])
        if self.accumulates and "c" not in changes:
            given["c"] = given["out"]
        operands = {name: given[name] for name in self.plan.operands}
        numbers = [given[name] for name in self.numbers]
        try:
            if torch.is_grad_enabled():
                refuse_gradients(self.op.__name__, **operands)
            status = self.launch(*operands.values(), *numbers, None)
        except TilewrightError:
            raise
        except (AttributeError, RuntimeError, TypeError, ValueError):
            self._check(given)  # the binding has refused it; this says it better
            for name, tensor in operands.items():
                if special(tensor):
                    message = f"it is a {type(tensor).__name__}; an ordinary tensor with memory is wanted"
                    raise ArgumentTypeError(name, message) from None
            for index, tensor in enumerate(operands.values()):
                if _type(tensor) != self._types[index]:  # the op would take it
                    self._fail(UNPLANNED - index, operands)
            raise
        if status:
            self._fail(status, operands)

    def _fail(self, status: int, operands: Mapping[str, torch.Tensor | None]) -> NoReturn:
        index = UNPLANNED - status
        if 0 <= index < len(self._planned):
            name = self.plan.operands[index]
            raise ArgumentError(
                name,
                f"it is {_told(operands[name])}; the plan is for {self._planned[index]}",
                hint=f"Make a plan for it with tilewright.plan, or call tilewright.{self.op.__name__}.",
            )
        assert isinstance(self.plan, DirectPlan)
        self.plan.fail(status)


def plan(op: Callable[..., Any], /, *arguments: Any, **options: Any) -> Any:
    """A prepared call of an op, for operands that lie as the given ones do.

    Args:
        op: tilewright.gemm, mm_nvfp4, mm_mxfp4, mm_mxfp8, mm_mxfp8_mxfp4, quantize_nvfp4, quantize_mxfp4,
            quantize_mxfp8, quantize_fp8_blockwise, or what dequantises their results.
        arguments, options: what the op takes, tensors included. They say which problem it is; nothing is
            launched. The kernel is built now if need be (with TILEWRIGHT_JIT=0: NotBuiltError); that of
            operands that are copied or padded, at the first call.

    Returns:
        A function that answers what the op answers: `plan(a, b, out=None, **replaced)`; of an op that
        quantises `plan(x, out=None, out_scales=None, **replaced)`, of one that reads back
        `plan(data, scales, out=None, **replaced)`. What it passes has the shapes, strides, dtypes and device
        of the given ones, whose addresses may be others. Other operands are those given here, unless a call
        replaces them by keyword with such as lie the same; alpha, beta and eps can be replaced too. Where
        `c` is `out` here, each call adds to its own `out`.

    Raises:
        What the op raises. A call raises ArgumentError for an operand that is not as planned: it says which,
        how it lies and how the planned one does; and for an address that the kernel cannot read.
    """
    make = _makers(op).get(op)
    if make is None:
        name = getattr(op, "__name__", repr(op))
        wanted = "tilewright.gemm or one of tilewright.mm_*, quantize_* and dequantize_* is wanted"
        raise ArgumentTypeError("op", f"it is {name}; {wanted}")
    try:
        asked = inspect.signature(op).bind(*arguments, **options)
    except TypeError as error:
        raise TypeError(f"tilewright.{op.__name__}: {error}") from None
    asked.apply_defaults()
    return make(asked.arguments)


Maker: TypeAlias = "Callable[[Mapping[str, Any]], Prepared]"
"""Of all arguments of an op, by name: their plan."""


def _makers(op: Callable[..., Any]) -> Mapping[Callable[..., Any], Maker]:
    """What makes plans of a family's ops: the family's `prepared.MAKERS`."""
    family = str(getattr(op, "__module__", "")).rpartition(".")[0]
    if family.startswith("tilewright.ops.") and find_spec(f"{family}.prepared"):
        makers: dict[Callable[..., Any], Maker]
        makers = importlib.import_module(f"{family}.prepared").MAKERS
        return makers
    return {}


def _layout(tensor: torch.Tensor | None) -> tuple[int, ...]:
    """As `Layout` of tilewright/matrix_binding.hpp takes it."""
    if tensor is None:
        return ()
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return (max(tensor.get_device(), 0), tensor.dim(), *(number for pair in pairs for number in pair))


def _same(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """The stride of an extent of 1 means nothing."""
    pairs = zip(one[2::2], one[3::2], other[3::2], strict=False)
    return one[:2] == other[:2] and one[2::2] == other[2::2] and all(n <= 1 or s == t for n, s, t in pairs)


def _type(tensor: torch.Tensor | None) -> tuple[torch.dtype, torch.device] | None:
    return None if tensor is None else (tensor.dtype, tensor.device)


def _told(tensor: torch.Tensor | None) -> str:
    if tensor is None:
        return "absent"
    strides = ", ".join(map(str, tensor.stride()))
    return f"{dims(tensor.shape)} with strides ({strides}) of {tensor.dtype} on {tensor.device}"


def _launcher(
    plan: Plan,
    layouts: tuple[tuple[int, ...], ...],
    types: tuple[tuple[torch.dtype, torch.device] | None, ...],
) -> Launcher:
    """What a call calls, with the launcher's arguments: quickest where there is nothing but a launch."""
    launch = _fixed(plan, layouts, types)
    if plan.device.type != "cuda" or not calls.several_devices():
        return launch
    index = plan.device.index

    def there(*call: Any) -> int:
        if torch.cuda.current_device() == index:
            return launch(*call)
        with torch.cuda.device(index):
            return launch(*call)

    return there


def _fixed(
    plan: Plan,
    layouts: tuple[tuple[int, ...], ...],
    types: tuple[tuple[torch.dtype, torch.device] | None, ...],
) -> Launcher:
    if isinstance(plan, DirectPlan) and type(plan).run is DirectPlan.run:
        bound = copy.copy(plan)
        bound.launch = plan.library.fixed(plan.launch, layouts)
        return (lambda *call: bound.start(call[:-1])) if plan.workspace_bytes else bound.launch

    def run(*call: Any) -> int:
        for index, layout in enumerate(layouts):  # the binding checks a launch's
            if _type(call[index]) != types[index] or not _same(_layout(call[index]), layout):
                return UNPLANNED - index
        plan.run(call[:-1])
        return 0

    return run
