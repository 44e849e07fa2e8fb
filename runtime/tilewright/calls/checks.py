"""The checks of a call's arguments, and what a plan depends on: both follow from the declaration.

All of it runs once for each combination of dtypes, shapes, strides and options; where a plan is remembered,
its key holds them. Messages name the op's arguments, what was given and what is wanted. Of fake tensors,
extents and strides may be symbols: what does not hold certainly is left to the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import torch

from tilewright import blockwise_scales
from tilewright.calls import guards, memory
from tilewright.calls.guards import dims
from tilewright.calls.op import Op, Values
from tilewright.calls.operands import check_contiguous, check_packed, told_by
from tilewright.calls.placement import Arguments
from tilewright.calls.symbolic import certainly, differ, symbolic
from tilewright.context import Context
from tilewright.declarations.declaration import Combinations, Matrix, Operand, Packed
from tilewright.declarations.matrices import MatrixView
from tilewright.declarations.vocabulary import MOST_EXTENT, Choice
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.formats.dtypes import dtype_of
from tilewright.formats.types import bits, per_byte

# Options that say the field of a problem that has their name, by their kind, and what they become.
_SAID: dict[str, Callable[[Any], Any]] = {
    "flag": bool, "word": str, "integer": lambda number: number, "optional integer": lambda number: number,
}  # fmt: skip


def check(op: Op, context: Context, values: Values, *, fake: bool = False) -> Arguments:
    """What a plan depends on. Raises ArgumentError or ArgumentTypeError for the first argument that is wrong;
    numbers have gone through `factor`. `fake`: tensors may be on the meta device, extents be symbols."""
    return _Check(op, values).run(context, fake=fake)


class _Check:
    def __init__(self, op: Op, values: Values) -> None:
        self.op = op
        self.values = values
        self.interface = op.interface
        self.required = [one for one in self.interface.operands if one.name in op.required]
        self.views: dict[str, MatrixView] = {}
        self.fields: dict[str, Any] = {}  # of the problem, as far as they are known
        self.read: list[Matrix] = []  # those that have told the extents

    def run(self, context: Context, *, fake: bool) -> Arguments:
        op, values = self.op, self.values
        tensors = {name: values[name] for name in op.tensors}
        scales = op.of(("scale",))  # numbers, or tensors that may be elsewhere
        ordinary = {name: each for name, each in tensors.items() if name not in scales}
        for name in scales:
            if isinstance(tensors[name], torch.Tensor):
                guards.check_tensor(name, tensors[name])
        guards.check_tensors(context, ordinary, op.required, fake=fake)
        if not fake:
            guards.refuse_derivatives(op.name, **tensors)
        elif torch.is_grad_enabled():  # torch unpacks no dual tensor below its key Autograd
            guards.refuse_gradients(op.name, **tensors)
        for name in op.of(("flag",)):
            guards.check_flag(name, values[name])
        for one in op.parameters:
            if one.kind == "integer" or (one.kind == "optional integer" and values[one.name] is not None):
                guards.check_whole(one.name, values[one.name], least=0 if one.default == 0 else 1)
        self.fields |= op.fields(values)
        combinations = op.combinations(values)
        if combinations is not None:
            self._types(combinations)
        batched = self._extents() or op.batched(values)
        self._options()
        self._multiples()
        problem = self._problem()
        op.rules(values, problem)
        for operand in self.interface.operands:
            self._operand(operand, problem, batched)
        problem, noted = op.described(values, problem)
        return Arguments(
            problem=problem,
            matrices={name: view for name, view in self.views.items() if self._is_read(name)},
            results=tuple(self._results(problem, batched)),
            device=tensors[self.required[0].name].device,
            noted=noted,
            scattered=frozenset(one.name for one in self.interface.operands if self._scattered(one, problem)),
        )

    def _types(self, combinations: Combinations) -> None:
        found = []
        for position, field in enumerate(combinations.read):
            operand = next(one for one in self.required if one.type == field)
            possible = dict.fromkeys(types[position] for types in combinations.legal)
            dtype = self.values[operand.name].dtype
            told = {name: told_by(name, operand, only=len(possible) == 1) for name in possible}
            name = next((name for name in possible if dtype in told[name]), None)
            if name is None:
                known = dict.fromkeys(dtype for dtypes in told.values() for dtype in dtypes)
                message = f"its dtype is {dtype}; one of {guards.dtypes(known)} is wanted by {self.op.name}"
                raise ArgumentTypeError(operand.name, message)
            found.append((operand, name))
        types = tuple(name for _, name in found)
        if types not in combinations.legal:
            given = " and ".join(f"{one.name} is {self.values[one.name].dtype}" for one, _ in found)
            dtypes = (guards.dtypes(map(dtype_of, each)) for each in combinations.legal)
            pairs = ", ".join(f"({each})" for each in dict.fromkeys(dtypes))
            names = ", ".join(one.name for one, _ in found)
            raise ArgumentTypeError(found[-1][0].name, f"{given}; ({names}) of {pairs} are wanted")
        self.fields |= dict(zip(combinations.read, types, strict=True))
        if combinations.result:
            self.fields[combinations.result] = self._result_type(combinations, types)

    def _result_type(self, combinations: Combinations, types: tuple[str, ...]) -> str:
        """What the call asks, or what it brings, or the default."""
        legal = combinations.legal[types]
        asked, out = self.values.get(combinations.option), self.values.get("out")
        if asked is None and out is None and self.op.defaults().get(combinations.option) is None:
            return legal[0]
        argument, given = combinations.option, asked
        if asked is None and out is not None:
            argument, given = "out", out.dtype
        if given is not None:
            guards.check_dtype(argument, given)
        for name in legal:
            if given == dtype_of(name):
                return name
        wanted = guards.dtypes(map(dtype_of, legal))
        whose = "its dtype" if argument == "out" else "it"
        read = guards.dtypes(map(dtype_of, types))
        message = f"{whose} is {given}; one of {wanted} is wanted for operands of {read}"
        raise ArgumentTypeError(argument, message)

    def _extents(self) -> bool:
        """Reads the extents from what every call brings; whether a matrix of a batch is among it."""
        told: dict[str, str] = {}  # by which operand
        batched = False
        partial = SimpleNamespace(**self.fields)
        matrices = (one for one in self.required if isinstance(one, Matrix))
        self.read += (one for one in matrices if {one.rows, one.columns} <= {*self.interface.extents})
        for matrix in self.read:
            tensor, batch = self.values[matrix.name], matrix.batch_of(partial)
            single = matrix.single_of(partial)
            view = self._view(matrix, matrix.type_of(partial), batch, single)
            parts = matrix.parts(partial)
            if certainly(view.columns % parts != 0):
                message = f"its shape is {dims(tensor.shape)}; a multiple of {parts} columns is wanted"
                raise ArgumentError(matrix.name, message)
            read = {matrix.rows: view.rows, matrix.columns: view.columns // parts}
            if batch:
                batched = batched or tensor.dim() == 3
                read |= {batch: view.batch}
            for extent, value in read.items():
                self._extent(matrix, extent, value, told, one_for_all=single and extent == batch)
            check_contiguous(matrix, tensor)
        for one in self.interface.words.extents:
            if not one.hint:
                number = self.values.get(one.name)
                self.fields.setdefault(one.name, one.default or 1 if number is None else number)
        return batched

    def _extent(
        self, matrix: Matrix, extent: str, value: int, told: dict[str, str], *, one_for_all: bool
    ) -> None:
        known = self.fields.get(extent)
        if known is None or (one_for_all and certainly(known == 1)):
            guards.check_most(matrix.name, value, f"its {extent}")
            self.fields[extent] = value
            told[extent] = matrix.name
        elif certainly(value != known) and not (one_for_all and certainly(value == 1)):
            other = told.get(extent)
            raise ArgumentError(
                matrix.name,
                f"its shape is {dims(self.values[matrix.name].shape)}, {extent} of {value}"
                + (f", and {other}'s {dims(self.values[other].shape)}, {extent} of {known}" if other else "")
                + f"; {extent} of {known} is wanted",
            )

    def _view(self, matrix: Matrix, type: str, batch: str, single: bool) -> MatrixView:
        tensor = self.values[matrix.name]
        possible = ((2, 3) if single else (3,)) if batch else (2,)
        if tensor.dim() not in possible:
            wanted = {
                (2,): "two dimensions are wanted",
                (3,): "three dimensions, the batch first, are wanted",
                (2, 3): "two dimensions, or three with a batch first, are wanted",
            }[possible]
            raise ArgumentError(matrix.name, f"its shape is {dims(tensor.shape)}; {wanted}")
        if any(certainly(extent > MOST_EXTENT) for extent in tensor.shape):
            message = f"its shape is {dims(tensor.shape)}; at most {MOST_EXTENT} is possible"
            raise ArgumentError(matrix.name, message)
        return self.views.setdefault(matrix.name, MatrixView.read(matrix, type, tensor))

    def _options(self) -> None:
        """Reads the options that fields of the problem are named after."""
        words = {word.name: word for word in self.interface.words.others}
        known = {field.name for field in fields(self.interface.words.problem)}
        for one in self.op.parameters:
            value, word = self.values[one.name], words.get(one.name)
            if one.kind == "word" and isinstance(word, Choice):
                guards.check_word(one.name, value, word.possible(self.fields))
            if one.kind in _SAID and one.name in known and value is not None:
                self.fields.setdefault(one.name, _SAID[one.kind](value))

    def _multiples(self) -> None:
        """What extents are multiples of, whatever the kernel."""
        for one in self.interface.words.extents:
            value, multiple = self.fields.get(one.name, 0), one.multiple(self.fields)
            if certainly(value % multiple != 0):
                tellers = (each.name for each in self.read if one.name in (each.rows, each.columns))
                message = f"{one.name} is {value}; a multiple of {multiple} is wanted{one.why}"
                raise ArgumentError(next(tellers, one.name), message)

    def _problem(self) -> Any:
        kind = self.interface.words.problem
        there = {
            field.name: self.values[field.name] is not None and self._is_read(field.name)
            for field in fields(kind)
            if field.default is False and field.name in self.op.tensors
        }
        declared = {field.name for field in fields(kind)}
        problem = kind(**{name: each for name, each in (self.fields | there).items() if name in declared})
        for name in self.interface.extents:
            tellers = (one.name for one in self.interface.operands if name in getattr(one, "extents", ()))
            argument = next((one for one in tellers if self.values.get(one) is not None), name)
            what = "it" if argument == name else f"its {name}"
            guards.check_most(argument, getattr(problem, name), what)
        return problem

    def _is_read(self, name: str) -> bool:
        """Whether what a call brings is looked at; C, say, is not where beta is 0."""
        operand = self.interface.operand(name)
        return self.values.get(operand.unread_if_zero) != 0

    def _operand(self, operand: Operand, problem: Any, batched: bool) -> None:
        """Checks what is not read yet."""
        name = operand.name
        tensor = self.values.get(name)
        if name in self.op.tensors and operand.wanted and operand.wanted(problem) == (tensor is None):
            given, wanted = ("None", "one is") if tensor is None else ("given", "None is")
            raise ArgumentError(name, f"it is {given}; {wanted} wanted of {problem.types_text}")
        if tensor is None:
            if operand.unread_if_zero and name in self.op.tensors and self._is_read(name):
                number, twin = operand.unread_if_zero, operand.twin
                hint = f"pass {name}={twin} to add to what {twin} holds"
                raise ArgumentError(name, f"it is None and {number} is {self.values[number]}; {hint}")
            return
        if name not in self.op.tensors or not operand.type:
            return
        type = operand.type_of(problem)
        legal = [dtype_of(type), *([torch.uint8] if operand.raw and bits(type) <= 8 else [])]
        if tensor.dtype not in legal:
            wanted = f"{guards.dtypes(legal)} is wanted"
            raise ArgumentTypeError(name, f"its dtype is {tensor.dtype}; {wanted}")
        if isinstance(operand, Packed):
            check_packed(operand, tensor, self._shape(operand, problem, batched), problem)
        elif isinstance(operand, Matrix) and operand not in self.read:
            shape = self._shape(operand, problem, batched)
            possible = [shape] if operand.written or not operand.single_of(problem) else [shape, shape[-2:]]
            if all(differ(tensor.shape, one) for one in possible):
                raise ArgumentError(name, f"its shape is {dims(tensor.shape)}; {dims(shape)} is wanted")
            self._view(operand, type, operand.batch_of(problem), operand.single_of(problem))
            check_contiguous(operand, tensor)
            if operand.written and not symbolic(tensor) and memory.overlaps_itself(tensor):
                raise ArgumentError(name, f"its strides are {tensor.stride()}: elements of it overlap")

    def _scattered(self, operand: Operand, problem: Any) -> bool:
        """Whether it is to be copied, because it does not lie as it is declared to."""
        tensor = self.values.get(operand.name)
        if tensor is None or not operand.copied or operand.written or symbolic(tensor):
            return False
        if isinstance(operand, Matrix):
            *_, length, step = self.views[operand.name].along(operand.inner(problem))
            return step != 1 and length > per_byte(operand.type_of(problem))
        in_columns = isinstance(operand, Packed) and operand.has_gaps(problem)
        return not (blockwise_scales.lies_m_major(tensor) if in_columns else tensor.is_contiguous())

    def _results(self, problem: Any, batched: bool) -> Iterator[tuple[tuple[int, ...], torch.dtype]]:
        """Shape and dtype of what the call writes."""
        for name in self.op.variants()[self.op.variant(self.values)]:
            operand = self.interface.operand(name)
            type = operand.type_of(problem)
            raw = operand.made_raw and per_byte(type) > 1
            shape = self._shape(operand, problem, batched)
            for extent in shape if isinstance(operand, Matrix) else ():
                guards.check_most(name, extent, f"an extent of the result, {dims(shape)},")
            yield shape, torch.uint8 if raw else dtype_of(type)

    def _shape(self, operand: Operand, problem: Any, batched: bool) -> tuple[int, ...]:
        """Of a tensor."""
        if isinstance(operand, Packed):
            shape = operand.shape_of(problem)
            if not (operand.of and batched):
                return shape
            matrix = self.interface.operand(operand.of)
            assert isinstance(matrix, Matrix)
            view = self.views.get(operand.of)
            return (view.batch if view else getattr(problem, matrix.batch_of(problem)), *shape)
        assert isinstance(operand, Matrix)
        shape = operand.tensor_shape(problem)
        batch = operand.batch_of(problem)
        return (
            (getattr(problem, batch), *shape)
            if batch and (batched or not operand.single_of(problem))
            else shape
        )
