"""Registers ops with torch's library, and tells which tensors have to go through torch's dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C import _len_torch_dispatch_stack as modes

from tilewright.calls.guards import MOST_FLOAT, factor, refuse_derivatives
from tilewright.declarations.tactics import Tactic

_library = torch.library.Library("tilewright", "DEF")
# Without this tag Inductor may change layouts: a column-major b would become row-major.
_TAGS = (torch.Tag.needs_exact_strides, torch.Tag.pt2_compliant_tag)
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def define(
    name: str,
    schema: str,
    run: Callable[..., Any],
    fake: Callable[..., Any],
    flops: Callable[..., int] | None = None,
) -> None:
    """Registers an op for every device. `run` checks the device itself.

    No op has a derivative: `run` and `fake` refuse tensors of which autograd expects one.
    """
    _library.define(name + schema, tags=_TAGS)
    _library.impl(name, run, "CompositeExplicitAutograd")
    _library.impl(name, _under_autograd(name, run), "Autograd", with_keyset=True)
    torch.library.register_fake(f"tilewright::{name}", fake, lib=_library)
    if flops is not None:
        from torch.utils.flop_counter import register_flop_formula  # noqa: PLC0415

        register_flop_formula(getattr(torch.ops.tilewright, name))(flops)


def _under_autograd(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """The op's kernel for torch's key Autograd. functorch's transforms (grad, jvp, and what is built on them)
    show here alone what they differentiate; the keys below see unwrapped tensors. Plain tensors go on to
    `run`, which checks them itself: another turn of the dispatcher would take 7 us."""
    op = getattr(torch.ops.tilewright, name).default
    names = [argument.name for argument in op._schema.arguments]

    def under_autograd(keys: Any, /, *arguments: Any, **options: Any) -> Any:
        if not (modes() or needs_dispatcher(*arguments, *options.values())):
            return run(*arguments, **options)
        refuse_derivatives(name, **dict(zip(names, arguments, strict=False)), **options)
        return op.redispatch(keys & torch._C._after_autograd_keyset, *arguments, **options)

    return under_autograd


def needs_dispatcher(*tensors: Any) -> bool:
    """Whether a call must go through torch's dispatcher: a tensor is of a subclass (a fake tensor, for
    instance), has no memory, or is wrapped by functorch."""
    return any(isinstance(tensor, torch.Tensor) and _is_not_plain(tensor) for tensor in tensors)


def _is_not_plain(tensor: torch.Tensor) -> bool:
    return (
        type(tensor) not in _PLAIN
        or tensor.is_meta
        or torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        or torch._is_functional_tensor(tensor)
    )


def without_subclass(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """An operand as a plain tensor, for an op's kernel: the dispatcher has handled its subclass."""
    return tensor if tensor is None or type(tensor) in _PLAIN else tensor.as_subclass(torch.Tensor)


def bump_versions(*tensors: torch.Tensor) -> None:
    """Raises autograd's version counters of the tensors that a `*_out` op has written."""
    torch.autograd.graph.increment_version([tensor for tensor in tensors if not tensor.is_inference()])


def name_of(tactic: Tactic | str | None) -> str | None:
    """A tactic as a schema's `str?`."""
    return tactic if tactic is None or isinstance(tactic, str) else str(tactic)


def number(name: str, value: Any) -> Any:
    """A factor as a schema's `float`; symbols stay as they are."""
    if isinstance(value, (float, torch.SymFloat, torch.SymInt)):
        return value
    return value if isinstance(value, int) and abs(value) < MOST_FLOAT else factor(name, value)


def flops(a: torch.Size, b: torch.Size, *_: Any, **__: Any) -> int:
    """Floating-point operations of a product, for FlopCounterMode. FP4 x FP4, where shapes count bytes of two
    elements, comes out at half."""
    batch = max((shape[0] for shape in (a, b) if len(shape) == 3), default=1)
    k = max(a[-1], b[-2])  # beside one of FP4, the other operand has an element to a byte
    return int(2 * batch * a[-2] * b[-1] * k)
