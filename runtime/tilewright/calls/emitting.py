"""The Python of a call, written out for an op's parameters; `calls.protocol` says what it does, and has the
functions that it calls.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilewright.declarations.declaration import Operand, Packed

if TYPE_CHECKING:
    from tilewright.calls.op import Op
    from tilewright.calls.signature import Parameter


def text(op: Op) -> str:
    """The Python of a call."""
    return "\n".join(_lines(op)) + "\n"


def _lines(op: Op) -> Iterator[str]:  # noqa: PLR0915 (a text reads best in one piece)
    names = [one.name for one in op.parameters]
    tensors = [one for one in op.parameters if one.is_tensor]
    first = next(one.name for one in tensors if one.kind == "tensor")
    optional = [one.name for one in tensors if one.kind != "tensor"]
    values = f"dict({', '.join(f'{name}={name}' for name in names)})"
    operands = ", ".join(_launched(op))
    call = ", ".join(("*_operands" if op.may_fill else operands, *_numbers(op)))

    yield f"def {op.name}({_parameters(op)}):"
    yield "    if _tracing() or _modes():"
    yield f"        return _traced({values})"
    yield "    if _forward_ad._current_level >= 0:"
    yield f"        _refuse_tangents({', '.join(f'{one.name}={one.name}' for one in tensors)})"
    yield "    _context = _current()"
    for name in op.numbers:
        other = "if"
        if name in op.addends:
            yield f"    if {name} is None:"
            yield f"        {name} = 0.0 if {op.addends[name]} is None else 1.0"
            other = "elif"
        yield f"    {other} type({name}) is not float:"
        yield f"        {name} = _factor({name!r}, {name})"
    wants = " or ".join(
        f"{one.name}.requires_grad" if one.kind == "tensor" else f"({one.name} is not None and {_grad(one)})"
        for one in tensors
    )
    yield from _fast_path(op, wants)
    yield "    try:"
    yield f"        _key = ({', '.join(_key(op))},)"
    yield "        _plan = _context.plans.get(_key)"
    yield "    except (AttributeError, TypeError, RuntimeError):"
    yield "        _key = _plan = None"
    yield "    if _plan is None:"
    yield f"        _plan = _first(_context, _key, {values})"
    yield "        if _plan is None:"
    yield f"            return _traced({values})"
    yield "    else:"
    yield "        _plan.used = True"
    yield f"        if ({wants}) and _grad():"
    yield f"            _refuse({', '.join(f'{one.name}={one.name}' for one in tensors)})"
    for name, number in _unread(op):
        yield f"    if not {number}:"
        yield f"        {name} = None"
    if op.numbers:
        yield "    if _plan.recheck is not None:"
        yield f"        _plan.recheck({', '.join(op.numbers)})"
    yield f"    _given = {', '.join(op.written)}"
    if "out" in optional:
        yield "    if out is None:"
        yield f"        out = {_making('_plan')}"
    if op.may_fill:
        yield f"    _operands = ({operands})"
        yield "    if _plan.fills:"
        yield "        _operands = _op.fill(_plan.arguments, _operands)"
    yield "    try:"
    yield "        if (_launch := _plan.quick) is not None:"
    yield f"            if _status := _launch({call}, None):"
    yield "                _plan.fail(_status)"
    if _caches_launchers(op):
        yield "            if _plan.cached is None and _plan.recheck is None and _key is not None:"
        yield f"                _cache_launcher(_context, ({', '.join(_launcher_key(op, '_given'))},), _plan)"
    yield f"        elif _several() and _elsewhere({first}):"
    yield f"            _there(_plan, ({call}))"
    yield "        else:"
    yield f"            _plan.run(({call}))"
    yield "    except _Misaligned:"
    yield f"        _realign(_context, _key, _plan, {values}, ({call}))"
    yield "    except _Ours:"
    yield "        raise"
    yield "    except (RuntimeError, TypeError, ValueError):"
    yield f"        return _recover(_context, {values}, _given)"
    if len(op.written) == 1:
        yield "    return out"
    else:
        indices = [op.interface.names.index(name) for name in op.written]
        yield (
            f"    return {', '.join(f'_operands[{index}]' for index in indices)}"
            if _always(op)
            else (
                f"    return {op.written[0]} if _operands[{indices[1]}] is None else "
                f"({', '.join(f'_operands[{index}]' for index in indices)})"
            )
        )


def _caches_launchers(op: Op) -> bool:
    """Whether its launchers are cached (`kernels.launcher_cache`): they look at all that decides."""
    return op.written == ("out",) and not op.may_fill and not op.of(("scale",))


def _fast_path(op: Op, wants: str) -> Iterator[str]:
    """A call first tries the cached launchers. They look at types, extents, strides and devices themselves,
    those of a result that the call has made included. What they do not launch, the rest of the call does."""
    if not _caches_launchers(op):
        return
    others = [name for name in op.tensors if name not in op.required]
    plain = [f"type({name}) is _Tensor" for name in op.required]
    plain += [f"({name} is None or type({name}) is _Tensor)" for name in others]
    unread = dict(_unread(op))
    given = [f"({name} if {unread[name]} else None)" if name in unread else name for name in _launched(op)]
    given[op.interface.names.index("out")] = "_made"
    yield f"    if {' and '.join(plain)}:"
    yield "        try:"
    yield f"            _cached = _context.plans.launchers.get(({', '.join(_launcher_key(op, 'out'))},))"
    yield f"            if _cached is not None and not (({wants}) and _grad()):"
    yield "                _cached.used = True"
    yield f"                _made = out if out is not None else {_making('_cached.plan')}"
    yield f"                if _cached.launch({', '.join((*given, *_numbers(op)))}, None) == 0:"
    yield "                    return _made"
    yield "        except (RuntimeError, TypeError, ValueError):"
    yield "            pass  # said below"


def _making(plan: str) -> str:
    return f"_make({plan}.shape, {plan}.strides, dtype={plan}.dtype, device={plan}.device)"


def _launcher_key(op: Op, out: str) -> Iterator[str]:
    """The short key of cached launchers: what of a plan's key no launcher looks at, and the shape of one
    operand, so that few launchers share a key; all shapes and a type where they say what is to be made."""
    first, *others = op.required
    yield repr(op.name)
    yield f"{first}.shape"
    made = (f"{first}.dtype", *(f"{name}.shape" for name in others))
    yield f"None if {out} is not None else ({', '.join(made)},)"
    yield from (f"_key_of_integers({name})" for name in op.of(("integers",)))
    yield from (
        one.name
        for one in op.parameters
        if not one.is_tensor and not one.is_number and one.kind != "integers"
    )
    yield from (f"not {number}" for number in _zeros(op))


def _always(op: Op) -> bool:
    """Whether every call writes all that the op writes."""
    return len(op.variants()) == 1


def _grad(one: Parameter) -> str:
    return (
        f"getattr({one.name}, 'requires_grad', False)" if one.kind == "scale" else f"{one.name}.requires_grad"
    )


def _parameters(op: Op) -> str:
    parts, starred = [], False
    for one in op.parameters:
        if one.by_keyword and not starred:
            parts.append("*")
            starred = True
        given = "" if one.default is inspect.Parameter.empty else f"=_default_{one.name}"
        parts.append(one.name + given)
    return ", ".join(parts)


def _launched(op: Op) -> list[str]:
    """The launcher's operands, as names or constants."""
    own = {one.name for one in op.parameters}
    return [name if name in own else repr(op.constants.get(name)) for name in op.interface.names]


def _numbers(op: Op) -> list[str]:
    own = {one.name for one in op.parameters}
    found = [number.name for number in op.interface.numbers]
    return [name if name in own else repr(op.constants[name]) for name in found]


def _unread(op: Op) -> list[tuple[str, str]]:
    """Operands that are not read where a number is 0, with the number."""
    own = {one.name for one in op.parameters}
    return [(one.name, one.unread_if_zero) for one in op.interface.operands if one.unread_if_zero in own]


def _key(op: Op) -> Iterator[str]:
    """What plans are remembered by: of tensors how they lie, of options their values, of numbers whether they
    are 0, where that decides what is read."""
    declared = {one.name: one for one in op.interface.operands}
    yield repr(op.name)
    several = []
    placed = False
    for one in op.parameters:
        name = one.name
        if one.kind == "tensor":
            yield from _layout(name, declared[name])
            if not placed:
                yield f"{name}.get_device()"
                placed = True
        elif one.kind == "scale":
            several.append((name, f"_layout_key({name}) if isinstance({name}, _Tensor) else type({name})"))
        elif one.is_tensor and name == "out":
            yield "None if out is None else (type(out), out.dtype, out.shape, out.stride())"
        elif one.is_tensor:
            several.append((name, f"_layout_key({name})"))
        elif one.kind == "integers":
            yield f"_key_of_integers({name})"
        elif not one.is_number:
            yield name
    if several:
        absent = " and ".join(f"{name} is None" for name, _ in several)
        yield f"None if {absent} else ({', '.join(key for _, key in several)},)"
    for number in _zeros(op):
        yield f"not {number}"


def _zeros(op: Op) -> Iterator[str]:
    """The numbers of which a plan depends on whether they are 0."""
    yield from (number for _, number in _unread(op))
    yield from op.product_factors


def _layout(name: str, operand: Operand) -> Iterator[str]:
    yield from (f"type({name})", f"{name}.dtype")
    # Of what is packed the launcher looks at the number of elements.
    if not isinstance(operand, Packed) or operand.strides() or operand.measured:
        yield from (f"{name}.shape", f"{name}.stride()")
