"""The ops as torch knows them: `torch.ops.tilewright.*`, with schemas and fake kernels.

The public functions are the quick way in plain eager calls. They go through these ops where torch has to
see a call: while torch.compile or torch.export traces, under modes (FakeTensorMode, FlopCounterMode,
make_fx), for subclasses of tensors, and in functorch's transforms.

An op writes either new tensors or, named `*_out`, those it is given; it answers no alias, so that torch can
functionalise it. `accumulate` stands for a c that is `out`: a schema has no words for that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from tilewright import context as contexts
from tilewright.calls import checks, custom_ops, emitting
from tilewright.calls.custom_ops import name_of, number, without_subclass
from tilewright.calls.guards import check_flag, check_strided, factor, is_integers
from tilewright.declarations.tactics import Tactic, parsed

if TYPE_CHECKING:
    from tilewright.calls.op import Op
    from tilewright.calls.signature import Parameter

_INT64 = 2**63  # what the integers of a schema are below


def _is_integer(value: Any) -> bool:
    return isinstance(value, torch.SymInt) or (isinstance(value, int) and -_INT64 <= value < _INT64)


def _is_text(value: Any) -> bool:
    """Whether it is a text of a schema, which is UTF-8. All words that ops know are ASCII."""
    return isinstance(value, str) and value.isascii()


_TAKEN: dict[str, Callable[[Any], bool]] = {
    "dtype": lambda value: isinstance(value, torch.dtype),
    "word": _is_text,
    "integers": lambda value: is_integers(value) and all(map(_is_integer, value)),
    "integer": _is_integer,
    "optional integer": _is_integer,
}
"""What options a schema takes, beside their defaults, by their kinds; it takes a number for a dtype, too."""


def register(op: Op) -> None:
    """Registers an op with all its variants."""
    scope = {
        "_Tensor": torch.Tensor, "_call": op.function, "_plain": without_subclass,
        "_bump": custom_ops.bump_versions,
    }  # fmt: skip
    # Fake tensors stay of their subclass, and the dispatcher itself counts their versions.
    fake = scope | {"_call": functools.partial(_fake, op), "_plain": _itself, "_bump": _itself}
    for suffix, results in op.variants().items():
        tensors = ", ".join(["Tensor"] * len(results))
        new = tensors if len(results) == 1 else f"({tensors})"
        for form, written, answer in ((suffix, (), new), (f"{suffix}_out", results, "()")):
            schema = f"({', '.join(_schema(op, suffix, written))}) -> {answer}"
            lines = list(kernel_lines(op, suffix, written))
            run, fake_run = (emitting.compiled(op, lines, names) for names in (scope, fake))
            custom_ops.define(op.name + form, schema, run, fake_run, op.flops)


def kernel_lines(op: Op, suffix: str, written: tuple[str, ...] = ()) -> Iterator[str]:
    """The Python of a variant's kernel, which makes its results, or writes to the tensors `written`."""
    first = tuple(parameter.name for parameter in _positional(op, written))
    return emitting.kernel(op, first, written, op.updates(suffix), _twin(op, written))


def _updated(op: Op) -> set[str]:
    """The arguments that some variant changes."""
    return {name for suffix in op.variants() for name in op.updates(suffix)}


def _positional(op: Op, written: tuple[str, ...] = ()) -> list[Parameter]:
    """The parameters that a schema lists first: all positional ones; for an op that writes to its arguments,
    the tensors it reads."""
    read = [parameter for parameter in op.parameters if parameter.name not in op.written]
    first = [parameter for parameter in read if not parameter.by_keyword]
    tensors = [parameter for parameter in first if parameter.kind in ("tensor", "optional tensor")]
    return tensors if written else first


def _schema(op: Op, suffix: str, written: tuple[str, ...] = ()) -> Iterator[str]:
    """The parameters of a variant's schema, of an op that writes to some that it is given."""
    first = _positional(op, written)
    if written:
        yield from (f"{parameter.schema().partition('=')[0]}" for parameter in first)
        yield from (f"Tensor({mark}!) {name}" for mark, name in zip("abc", written, strict=False))
    else:
        yield from (parameter.schema() for parameter in first)
    yield "*"
    if written and _twin(op, written):
        yield "bool accumulate=False"
    left_out = {*(parameter.name for parameter in first), *op.written, *_updated(op)}
    yield from (parameter.schema() for parameter in op.parameters if parameter.name not in left_out)
    yield from (
        f"Tensor({mark}!)? {name}=None" for mark, name in zip("xyz", op.updates(suffix), strict=False)
    )


def _twin(op: Op, written: tuple[str, ...]) -> str | None:
    """The operand that may be what is written, as `accumulate` says."""
    for operand in op.interface.operands:
        if operand.twin in written and operand.name in op.tensors and len(written) == 1:
            return operand.name
    return None


def _fake(op: Op, **named: Any) -> Any:
    """The body of an op's fake kernels: results of the right shapes and types, and of any values."""
    values = op.with_factors(op.defaults() | named)
    for name in op.numbers:
        if isinstance(values[name], (int, float)):
            factor(name, values[name])
    context = contexts.current()
    checked = checks.check(op, context, values, fake=True)
    tactic = parsed(values["tactic"])
    if tactic is not None:
        op.family.check_demand(context.registry, tactic, checked.problem)
    results = tuple(op.make(checked, index) for index in range(len(checked.results)))
    return results[0] if len(results) == 1 else results


def _itself(tensor: Any, *_: Any) -> Any:
    return tensor


def _for_schema(op: Op, values: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call as its op's schema takes them.

    Raises ArgumentError for a value that the schema does not take, with a better message than torch's.
    """
    for parameter in op.parameters:
        name, kind, value = parameter.name, parameter.kind, values[parameter.name]
        if parameter.is_tensor:
            absent = value is None and kind != "tensor"
            # For a sparse tensor beside one on meta, the dispatcher would call the op that has called it.
            if isinstance(value, torch.Tensor) or not (absent or kind == "scale"):
                check_strided(name, value)
        elif parameter.is_number:
            values[name] = number(name, value)
        elif kind == "flag":
            check_flag(name, value)
            values[name] = bool(value)
        elif kind == "tactic":
            values[name] = name_of(value if isinstance(value, str) else parsed(value))
            if isinstance(value, str) and not _is_text(value):
                op.family.demanded(contexts.current().registry, Tactic.parse(value))  # raises
        elif kind in _TAKEN and value is not parameter.default and not _TAKEN[kind](value):
            checks.check(op, contexts.current(), values, fake=True)  # raises
    return values


def traced(op: Op, values: dict[str, Any]) -> Any:
    """A call through torch's dispatcher; torch.compile traces this."""
    values = _for_schema(op, op.with_factors(values))
    values = op.in_graph(values)
    suffix = op.variant(values)
    written = op.variants()[suffix]
    for name in _updated(op) - set(op.updates(suffix)):
        del values[name]
    results = [values.pop(name, None) for name in op.written][: len(written)]
    if all(result is None for result in results):
        return getattr(torch.ops.tilewright, op.name + suffix).default(**values)
    if any(result is None for result in results):  # one op makes all or writes all
        try:
            empty = op.empty_results(values)
        except (IndexError, RuntimeError, TypeError, ValueError):
            checks.check(
                op, contexts.current(), values | dict(zip(op.written, results, strict=False)), fake=True
            )
            raise
        results = [new if old is None else old for old, new in zip(results, empty, strict=True)]
    twin = _twin(op, written)
    if twin is not None and values[twin] is results[0]:
        values |= {twin: None, "accumulate": True}
    first = [values.pop(parameter.name) for parameter in _positional(op, written)]
    getattr(torch.ops.tilewright, f"{op.name}{suffix}_out").default(*first, *results, **values)
    return results[0] if len(results) == 1 else tuple(results)
