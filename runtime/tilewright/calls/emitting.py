"""The one emitter of Python for calls: functions written out for an op's parameters.

Without loops over its arguments a call takes about three microseconds, the driver's launch aside. Three
functions of an op are written:

- `eager` is the body of the public function. `calls.protocol` says what it does, and holds what it calls.
- `prepared` is `__call__` of what `tilewright.plan` returns (`calls.prepared`).
- `kernel` is what an op of torch runs (`calls.registered`).

The folder `tests/runtime/calls/data` holds an example of each, which a test compares.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tilewright.calls import keys

if TYPE_CHECKING:
    from tilewright.calls.op import Op
    from tilewright.calls.signature import Parameter


def compiled(op: Op, lines: Iterable[str], scope: Mapping[str, Any]) -> Callable[..., Any]:
    """The function that is written in `lines`, with the names of `scope` and the op's defaults."""
    text = "\n".join(lines)
    name = text.removeprefix("def ").partition("(")[0]
    names = {**scope, **{f"_default_{parameter.name}": parameter.default for parameter in op.parameters}}
    exec(compile(text, f"<tilewright.{op.name}: {name}>", "exec"), names)
    function: Callable[..., Any] = names[name]
    return function


def eager(op: Op) -> Iterator[str]:
    """The lines of a public function."""
    names = {name: name for name in op.names}
    tensors = [parameter for parameter in op.parameters if parameter.is_tensor]
    values = f"dict({_by_name(names)})"
    unusual = " or ".join(_is_unusual(op, parameter) for parameter in tensors)
    operands = _arguments(op, op.interface.names, names)
    numbers = _arguments(op, (number.name for number in op.interface.numbers), names)
    call = ", ".join((*(["*_operands"] if op.may_fill else operands), *numbers))

    yield f"def {op.name}({_signature(op)}):"
    yield "    if _tracing() or _modes():"
    yield f"        return _traced({values})"
    yield "    if _forward_ad._current_level >= 0:"
    yield f"        _refuse_tangents({_by_name(op.tensors)})"
    yield "    _context = _current()"
    yield from _read_numbers(op)
    if keys.caches_launchers(op):
        yield from _cached_launch(op, operands, numbers, unusual)
    yield from _find_plan(op, values, unusual)
    for name, number in keys.unread(op).items():
        yield f"    if not {number}:"
        yield f"        {name} = None"
    yield from _recheck(op, "_plan", "    ")
    yield f"    _passed = {', '.join(op.written)}"
    if "out" in op.of(("optional tensor",)):
        yield "    if out is None:"
        yield f"        out = {_new_result('_plan')}"
    if op.may_fill:
        yield f"    _operands = ({', '.join(operands)})"
        yield "    if _plan.fills:"
        yield "        _operands = _fill(_plan.arguments, _operands)"
    yield from _run_plan(op, values, call)
    # An op of torch with one variant always writes all results.
    yield f"    return {_answer(op, '_operands', all_written=len(op.variants()) == 1)}"


def _read_numbers(op: Op) -> Iterator[str]:
    """The lines that make floats of a call's numbers."""
    for name in op.numbers:
        condition = "if"
        if name in op.addends:
            yield f"    if {name} is None:"
            yield f"        {name} = 0.0 if {op.addends[name]} is None else 1.0"
            condition = "elif"
        yield f"    {condition} type({name}) is not float:"
        yield f"        {name} = _factor({name!r}, {name})"


def _find_plan(op: Op, values: str, unusual: str) -> Iterator[str]:
    """The lines that look a call's plan up, or make one."""
    yield "    try:"
    yield f"        _key = ({', '.join(keys.key(op))},)"
    yield "        _plan = _context.plans.get(_key)"
    yield "    except (AttributeError, TypeError, RuntimeError):"
    yield "        _key = _plan = None"
    yield "    if _plan is None:"
    yield f"        _plan = _first(_context, _key, {values})"
    yield "        if _plan is None:"
    yield f"            return _traced({values})"
    yield "    else:"
    yield "        _plan.used = True"
    yield f"        if {unusual}:"
    yield f"            _refuse({_by_name(op.tensors)})"


def _run_plan(op: Op, values: str, call: str) -> Iterator[str]:
    """The lines that launch a plan's kernel. `call`: the arguments."""
    yield "    try:"
    yield "        if (_launch := _plan.quick) is not None:"
    yield f"            if _status := _launch({call}, None):"
    yield "                _plan.fail(_status)"
    if keys.caches_launchers(op):
        yield "            if _plan.cached is None and _key is not None:"
        key = ", ".join(keys.launcher_key(op, "_passed"))
        yield f"                _cache_launcher(_context, ({key},), _plan)"
    yield f"        elif _several() and _elsewhere({op.required[0]}):"
    yield f"            _run_on_its_device(_plan, ({call}))"
    yield "        else:"
    yield f"            _plan.run(({call}))"
    yield "    except _Misaligned:"
    yield f"        _realign(_context, _key, _plan, {values}, ({call}))"
    yield "    except _Ours:"
    yield "        raise"
    yield "    except (RuntimeError, TypeError, ValueError):"
    yield f"        return _recover(_context, {values}, _passed)"


def prepared(op: Op) -> Iterator[str]:
    """The lines of a prepared call. Operands and numbers that it does not pass are attributes of `self`."""
    passed = {name: name for name in (*op.passed, *op.replaced)}
    kept = {parameter.name: f"self.kept_{parameter.name}" for parameter in op.parameters}
    if "c" in kept:
        kept["c"] = f"(out if self.accumulates else {kept['c']})"
    places = kept | passed
    operands = _arguments(op, op.interface.names, places)
    numbers = _arguments(op, (number.name for number in op.interface.numbers), places)
    optional = [name for name in op.written if name != "out"]
    gradients = " or ".join(
        f"({name} is not None and {name}.requires_grad)" if name in optional else f"{name}.requires_grad"
        for name in op.passed
    )
    parameters = [f"{name}=None" if name in op.written else name for name in op.passed]
    if op.replaced:
        parameters += ["*", *(f"{name}=None" for name in op.replaced)]

    yield f"def __call__({', '.join(('self', *parameters, '**changes'))}):"
    yield "    if out is None:"
    yield "        self.check_made(changes)"
    yield f"        out = {_new_result('self')}"
    for name in op.replaced:
        yield f"    if {name} is None:"
        yield f"        {name} = {kept[name]}"
    yield "    if not changes and _forward_ad._current_level < 0:"
    yield "        try:"
    yield f"            if not ({gradients} or self.needs_gradients):"
    if op.may_fill or optional:
        yield f"                _operands = ({', '.join(operands)},)"
        yield "                if self.fills:"
        yield "                    _operands = _fill(self.arguments, _operands)"
        operands = ["*_operands"]
    yield f"                if self.launch({', '.join((*operands, *numbers))}, None) == 0:"
    yield f"                    return {_answer(op, '_operands')}"
    yield "        except (AttributeError, RuntimeError, TypeError, ValueError):"
    yield "            pass  # `carefully` raises what is wrong"
    yield f"    return self.carefully({{{', '.join(f'{name!r}: {name}' for name in passed)}}}, changes)"


def kernel(
    op: Op, first: tuple[str, ...], written: tuple[str, ...], updated: tuple[str, ...], twin: str | None
) -> Iterator[str]:
    """The lines of a kernel of an op of torch. It returns new results, or writes to the tensors `written`.

    `first`: the parameters before `written`; `updated`: other tensors that it changes; `twin`: the operand
    that may be the same tensor as the result."""
    defaults = op.defaults()
    brought = [name for name in op.names if name in (*first, *written) or name not in op.written]
    optional = {name: f"{name}=_default_{name}" for name in brought if name in defaults}
    parameters = [name if written else optional.get(name, name) for name in first] + [*written, "*"]
    parameters += ["accumulate=False"] if twin else []
    parameters += [optional.get(name, name) for name in brought if name not in (*first, *written)]

    yield f"def run({', '.join(parameters).removesuffix(', *')}):"
    if twin:
        yield "    if accumulate:"
        yield f"        {twin} = {written[0]}"
    for name in brought:
        if name in op.tensors:
            condition = "" if name in op.required else f"{name} is not None and "
            yield f"    if {condition}type({name}) is not _Tensor:"
            yield f"        {name} = _plain({name})"
        elif defaults.get(name) is not None:  # a schema may have None for a default
            yield f"    if {name} is None:"
            yield f"        {name} = _default_{name}"
    yield f"    _results = _call({_by_name(brought)})"
    for name in updated:
        yield f"    if {name} is not None:"
        yield f"        _bump({name})"
    yield f"    _bump({', '.join(written)})" if written else "    return _results"


def _cached_launch(op: Op, operands: list[str], numbers: list[str], unusual: str) -> Iterator[str]:
    """Tries the cached launchers first. They compare types, extents, strides and devices themselves, also
    those of a result that the call has made. The rest of the call does what they do not launch."""
    plain = [
        f"type({name}) is _Tensor" if name in op.required else f"({name} is None or type({name}) is _Tensor)"
        for name in (*op.required, *(name for name in op.tensors if name not in op.required))
    ]
    unread = keys.unread(op)
    operands = [f"({name} if {unread[name]} else None)" if name in unread else name for name in operands]
    operands[op.interface.names.index("out")] = "_result"
    yield f"    if {' and '.join(plain)}:"
    yield "        try:"
    yield f"            _cached = _context.plans.launchers.get(({', '.join(keys.launcher_key(op, 'out'))},))"
    yield f"            if _cached is not None and not ({unusual}):"
    yield "                _cached.used = True"
    yield from _recheck(op, "_cached", " " * 16)
    yield f"                _result = out if out is not None else {_new_result('_cached.plan')}"
    yield f"                if _cached.launch({', '.join((*operands, *numbers))}, None) == 0:"
    yield "                    return _result"
    yield "        except (RuntimeError, TypeError, ValueError):"
    yield "            pass  # the rest of the call raises what is wrong"


def _recheck(op: Op, holder: str, indent: str) -> Iterator[str]:
    """The lines that check a call's numbers where `holder`, a plan or its cached launchers, says how."""
    if op.rechecks:
        yield f"{indent}if {holder}.recheck is not None:"
        yield f"{indent}    {holder}.recheck({', '.join(op.numbers)})"


def _by_name(names: Iterable[str]) -> str:
    return ", ".join(f"{name}={name}" for name in names)


def _arguments(op: Op, names: Iterable[str], places: Mapping[str, str]) -> list[str]:
    """The launcher's operands or numbers: where the call has them, else the op's constants."""
    return [places[name] if name in places else repr(op.constants.get(name)) for name in names]


def _new_result(plan: str) -> str:
    return f"_make({plan}.shape, {plan}.strides, dtype={plan}.dtype, device={plan}.device)"


def _answer(op: Op, operands: str, *, all_written: bool = False) -> str:
    """What a call returns: D, or all that the op writes. A second result may be absent."""
    if len(op.written) == 1:
        return "out"
    indices = [op.interface.names.index(name) for name in op.written]
    results = ", ".join(f"{operands}[{index}]" for index in indices)
    return results if all_written else f"out if {operands}[{indices[1]}] is None else ({results})"


def _is_unusual(op: Op, parameter: Parameter) -> str:
    """Whether a warm call must refuse a tensor: autograd expects its gradient, or it is a negated view.

    Launchers refuse the addresses of negated views, except those of single numbers
    (`declarations.arguments`).
    """
    name = parameter.name
    gradient = f"{name}.requires_grad and _grad()"
    if parameter.kind == "tensor":
        return f"({gradient})"
    present = f"isinstance({name}, _Tensor)" if parameter.kind == "scale" else f"{name} is not None"
    if op.interface.operand(name).is_number:
        return f"({present} and ({gradient} or {name}.is_neg()))"
    return f"({present} and {gradient})"


def _signature(op: Op) -> str:
    parts: list[str] = []
    for parameter in op.parameters:
        if parameter.by_keyword and "*" not in parts:
            parts.append("*")
        has_default = parameter.default is not inspect.Parameter.empty
        parts.append(f"{parameter.name}=_default_{parameter.name}" if has_default else parameter.name)
    return ", ".join(parts)
