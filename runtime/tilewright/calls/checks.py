"""The checks of a call against its op's declaration. They result in what a plan depends on.

They run once for each combination of dtypes, shapes, strides and options: the key of a remembered plan
holds these. Checks of one value by itself are in `calls.guards`. Messages name the op's argument, say what it
is, and what is expected. Extents and strides of fake tensors may be symbols: a check that is not certain is
left to the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import torch

from tilewright import blockwise_scales
from tilewright.calls import guards, memory
from tilewright.calls.guards import certainly, differ, dims, symbolic
from tilewright.calls.op import Op, Values
from tilewright.calls.operands import check_contiguous, check_packed, types_of
from tilewright.calls.placement import Arguments
from tilewright.context import Context
from tilewright.declarations.declaration import Matrix, Operand, Packed
from tilewright.declarations.matrices import MatrixView
from tilewright.declarations.vocabulary import Choice
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.formats.dtypes import DTYPES
from tilewright.formats.types import TYPES

# Kinds of options that set the problem's field of their name, and how.
_FIELD_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "flag": bool, "word": str, "integer": lambda number: number, "optional integer": lambda number: number,
}  # fmt: skip
_DIMENSIONS = {
    (2,): "two dimensions",
    (3,): "three dimensions, the batch first",
    (2, 3): "two dimensions, or three with a batch first",
}


def check(op: Op, context: Context, values: Values, *, fake: bool = False) -> Arguments:
    """What a plan depends on. Raises ArgumentError or ArgumentTypeError for the first argument that is wrong;
    numbers have gone through `factor`. `fake`: tensors may be on the meta device, extents be symbols."""
    return _Check(op, values).run(context, fake=fake)


class _Check:
    def __init__(self, op: Op, values: Values) -> None:
        self.op = op
        self.values = values
        self.interface = op.interface
        self.required = [operand for operand in self.interface.operands if operand.name in op.required]
        self.views: dict[str, MatrixView] = {}
        self.fields: dict[str, Any] = {}  # of the problem, as far as they are known
        self.read: list[Matrix] = []  # the matrices whose shapes give the extents

    def run(self, context: Context, *, fake: bool) -> Arguments:
        op, values = self.op, self.values
        tensors = {name: values[name] for name in op.tensors}
        guards.check_tensors(context, tensors, op, fake=fake)
        guards.check_options(op, values)
        self.fields |= op.fields(values)
        combinations = op.combinations(values)
        if combinations is not None:
            self.fields |= types_of(op, values, self.required, combinations)
        batched = self._extents() or op.batched(values)
        self._options()
        self._multiples()
        problem = self._problem()
        op.rules(values, problem)
        self._operands(problem, batched)
        problem, noted = op.described(values, problem)
        operands = self.interface.operands
        return Arguments(
            problem=problem,
            matrices={name: view for name, view in self.views.items() if self._is_read(name)},
            results=tuple(self._results(problem, batched)),
            device=tensors[self.required[0].name].device,
            noted=noted,
            scattered=frozenset([operand.name for operand in operands if self._scattered(operand, problem)]),
        )

    def _extents(self) -> bool:
        """Reads the extents from the matrices that every call brings; whether a result has a batch."""
        sources: dict[str, str] = {}  # the operand that gives an extent
        batched = False
        partial = SimpleNamespace(**self.fields)
        extents = {*self.interface.extents}
        matrices = [operand for operand in self.required if isinstance(operand, Matrix)]
        self.read += [matrix for matrix in matrices if {matrix.rows, matrix.columns} <= extents]
        described = [
            (matrix, matrix.type_of(partial), matrix.batch_of(partial), matrix.single_of(partial),
             matrix.parts(partial))
            for matrix in self.read
        ]  # fmt: skip
        for matrix, type, batch, single, parts in described:
            view, tensor = self._view(matrix, type, batch, single), self.values[matrix.name]
            if parts > 1:
                message = f"its shape is {dims(tensor.shape)}; expected a multiple of {parts} columns"
                guards.refuse(view.columns % parts != 0, matrix.name, message)
            extents_of_matrix = {matrix.rows: view.rows, matrix.columns: view.columns // parts}
            if batch:
                batched = batched or tensor.dim() == 3
                extents_of_matrix |= {batch: view.batch}
            for extent, value in extents_of_matrix.items():
                guards.check_most(matrix.name, value, f"its {extent}")
            for extent, value in extents_of_matrix.items():
                self._extent(matrix, extent, value, sources, one_for_all=single and extent == batch)
            check_contiguous(matrix, tensor)
        for word in self.interface.words.extents:
            if not word.hint:
                number = self.values.get(word.name)
                self.fields.setdefault(word.name, word.default or 1 if number is None else number)
        return batched

    def _extent(
        self, matrix: Matrix, extent: str, value: int, sources: dict[str, str], *, one_for_all: bool
    ) -> None:
        expected = self.fields.get(extent)
        if expected is None or (one_for_all and certainly(expected == 1)):
            self.fields[extent] = value
            sources[extent] = matrix.name
        elif value is expected:
            pass
        elif certainly(value != expected) and not (one_for_all and certainly(value == 1)):
            source = sources.get(extent)
            shape_beside = dims(self.values[source].shape) if source else ""
            beside = f", and {source}'s {shape_beside}, {extent} of {expected}" if source else ""
            shape = dims(self.values[matrix.name].shape)
            message = f"its shape is {shape}, {extent} of {value}{beside}; expected {extent} of {expected}"
            across = {matrix.rows: -1, matrix.columns: -2}.get(extent)  # the matrix's other dimension
            transposed = across and certainly(self.values[matrix.name].shape[across] == expected)
            hint = f"Its transpose has it: pass {matrix.name}.mT." if transposed else None
            raise ArgumentError(matrix.name, message, hint=hint)

    def _view(self, matrix: Matrix, type: str, batch: str, single: bool) -> MatrixView:
        tensor = self.values[matrix.name]
        possible = ((2, 3) if single else (3,)) if batch else (2,)
        if tensor.dim() not in possible:
            message = f"its shape is {dims(tensor.shape)}; expected {_DIMENSIONS[possible]}"
            raise ArgumentError(matrix.name, message)
        guards.check_shape(matrix.name, tensor.shape)
        return self.views.setdefault(matrix.name, MatrixView.read(matrix, type, tensor))

    def _options(self) -> None:
        """Reads the options that fields of the problem are named after."""
        words = {word.name: word for word in self.interface.words.others}
        names = {field.name for field in fields(self.interface.words.problem)}
        for parameter in self.op.parameters:
            name, kind = parameter.name, parameter.kind
            value, word = self.values[name], words.get(name)
            if kind == "word" and isinstance(word, Choice):
                guards.check_word(name, value, word.possible(self.fields))
            if kind in _FIELD_OPTIONS and name in names and value is not None:
                self.fields.setdefault(name, _FIELD_OPTIONS[kind](value))

    def _multiples(self) -> None:
        """Checks what extents are multiples of for every kernel."""
        multiples = [(word, word.multiple(self.fields)) for word in self.interface.words.extents]
        for word, multiple in multiples:
            value = self.fields.get(word.name, 0)
            if multiple != 1 and certainly(value % multiple != 0):
                matrices = [matrix for matrix in self.read if word.name in (matrix.rows, matrix.columns)]
                message = f"{word.name} is {value}; expected a multiple of {multiple}{word.why}"
                raise ArgumentError(matrices[0].name if matrices else word.name, message)

    def _problem(self) -> Any:
        kind = self.interface.words.problem
        declared = {field.name: field for field in fields(kind)}
        present = {
            name: self.values[name] is not None and self._is_read(name)
            for name, field in declared.items()
            if field.default is False and name in self.op.tensors
        }
        values = {name: value for name, value in (self.fields | present).items() if name in declared}
        problem = kind(**values)
        arguments = {
            extent: [
                operand.name
                for operand in self.interface.operands
                if extent in getattr(operand, "extents", ()) and self.values.get(operand.name) is not None
            ]
            for extent in self.interface.extents
        }
        for extent, names in arguments.items():
            name = names[0] if names else extent
            guards.check_most(name, getattr(problem, extent), "it" if name == extent else f"its {extent}")
        return problem

    def _is_read(self, name: str) -> bool:
        """Whether a call reads what it brings; it does not read C, for example, if beta is 0."""
        return self.values.get(self.interface.by_name[name].unread_if_zero) != 0

    def _operands(self, problem: Any, batched: bool) -> None:
        """Checks the operands that the extents were not read from, and the dtypes of all."""
        for operand in self.interface.operands:
            self._check_presence(operand, problem)
        present = [
            operand
            for operand in self.interface.operands
            if self.values.get(operand.name) is not None and operand.name in self.op.tensors and operand.type
        ]
        # Operands of fixed types come first: a misplaced tensor may decide another's type.
        present.sort(key=lambda operand: operand.type not in TYPES)
        types = [operand.type_of(problem) for operand in present]
        for operand, type in zip(present, types, strict=True):
            name, tensor = operand.name, self.values[operand.name]
            legal = [DTYPES[type], *([torch.uint8] if operand.raw and TYPES[type].bits <= 8 else [])]
            if tensor.dtype not in legal:
                message = f"its dtype is {tensor.dtype}; expected {guards.dtypes(legal)}"
                raise ArgumentTypeError(name, message)
            if isinstance(operand, Packed):
                check_packed(operand, tensor, self._shape(operand, problem, batched), problem)
            elif isinstance(operand, Matrix) and operand not in self.read:
                shape = self._shape(operand, problem, batched)
                possible = (
                    [shape] if operand.written or not operand.single_of(problem) else [shape, shape[-2:]]
                )
                if all(differ(tensor.shape, each) for each in possible):
                    message = f"its shape is {dims(tensor.shape)}; expected {dims(shape)}"
                    raise ArgumentError(name, message)
                self._view(operand, type, operand.batch_of(problem), operand.single_of(problem))
                check_contiguous(operand, tensor)
                if operand.written and not symbolic(tensor) and memory.overlaps_itself(tensor):
                    raise ArgumentError(name, f"its strides are {tensor.stride()}: elements of it overlap")

    def _check_presence(self, operand: Operand, problem: Any) -> None:
        name = operand.name
        if name not in self.op.tensors:
            return
        absent = self.values.get(name) is None
        if operand.wanted and operand.wanted(problem) == absent:
            actual, expected = ("None", "a tensor") if absent else ("a tensor", "None")
            raise ArgumentError(name, f"it is {actual}; expected {expected} for {problem.types_text}")
        if absent and operand.unread_if_zero and self._is_read(name):
            number, twin = operand.unread_if_zero, operand.twin
            hint = f"pass {name}={twin} to add to what {twin} holds"
            raise ArgumentError(name, f"it is None and {number} is {self.values[number]}; {hint}")

    def _scattered(self, operand: Operand, problem: Any) -> bool:
        """Whether it is to be copied, because its layout is not as declared."""
        tensor = self.values.get(operand.name)
        if tensor is None or not operand.copied or operand.written or symbolic(tensor):
            return False
        if isinstance(operand, Matrix):
            *_, length, step = self.views[operand.name].along(operand.inner(problem))
            return step != 1 and length > (2 if TYPES[operand.type_of(problem)].bits == 4 else 1)
        in_columns = isinstance(operand, Packed) and operand.has_gaps(problem)
        return not (blockwise_scales.lies_m_major(tensor) if in_columns else tensor.is_contiguous())

    def _results(self, problem: Any, batched: bool) -> Iterator[tuple[tuple[int, ...], torch.dtype]]:
        """The shape and the dtype of each result."""
        for name in self.op.variants()[self.op.variant(self.values)]:
            operand = self.interface.by_name[name]
            type = operand.type_of(problem)
            shape = self._shape(operand, problem, batched)
            if isinstance(operand, Matrix):
                guards.check_shape(name, shape, f"an extent of the result, {dims(shape)},")
            yield shape, torch.uint8 if operand.made_raw and TYPES[type].bits == 4 else DTYPES[type]

    def _shape(self, operand: Operand, problem: Any, batched: bool) -> tuple[int, ...]:
        """The shape of an operand's tensor."""
        if isinstance(operand, Packed):
            shape = operand.shape_of(problem)
            if not (operand.of and batched):
                return shape
            matrix = self.interface.by_name[operand.of]
            assert isinstance(matrix, Matrix)
            view = self.views.get(operand.of)
            return (view.batch if view else getattr(problem, matrix.batch_of(problem)), *shape)
        assert isinstance(operand, Matrix)
        shape, batch = operand.tensor_shape(problem), operand.batch_of(problem)
        has_batch = batch and (batched or not operand.single_of(problem))
        return (getattr(problem, batch), *shape) if has_batch else shape
