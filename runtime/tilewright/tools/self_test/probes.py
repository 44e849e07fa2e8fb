"""The probes of a form, and what their results say is wrong.

A product with a matrix of ones and zeros shows the other operand's elements as they reached the tensor core:
where B's row n is 1 at k = n alone, D[m, n] is A[m, n]. Each element is shown several times with other codes,
so that the codes at a place tell which element arrived there, or which of its bits is wrong. Two more probes
show the sums that D begins with, and whole products of small numbers, which no rounding changes.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tilewright.tools.self_test.forms import Form, Load, Selection
from tilewright.tools.self_test.layouts import LOADS, PRODUCTS, Matrix, Operands
from tilewright.tools.self_test.numbers import FORMATS, float_word, small, usable, word_float

_MOST_SHOWN = 4  # faults of an operand
_LOAD_ROUNDS = 4
_PRODUCTS = 2

Position = tuple[int, int]
Shown = tuple[int, int, int]  # a probe, and row and column of its D


@dataclass
class Readback:
    """An operand whose elements D shows. `codes`: of each round, by position."""

    operand: str
    along: tuple[str, str]
    format: str
    codes: list[dict[Position, int]] = field(default_factory=list)
    shown: list[dict[Position, Shown]] = field(default_factory=list)

    def faults(self, values: Sequence[Sequence[Sequence[float]]]) -> list[str]:
        """A line for each element that is not the expected one. `values`: D of each probe."""
        form = FORMATS[self.format]
        code_of = {form.value(code): code for code in usable(self.format)}
        owner = {tuple(of_round[place] for of_round in self.codes): place for place in self.codes[0]}
        lines = []
        for place in self.codes[0]:
            expected = tuple(of_round[place] for of_round in self.codes)
            seen = [values[probe][row][column] for probe, row, column in (of[place] for of in self.shown)]
            actual = tuple(code_of.get(value) for value in seen)
            if actual != expected:
                lines.append(self._line(place, expected, actual, seen, owner))
        if len(lines) > _MOST_SHOWN:
            return [*lines[:_MOST_SHOWN], f"{self.operand}: {len(lines) - _MOST_SHOWN} more elements"]
        return lines

    def _line(
        self,
        place: Position,
        expected: Sequence[int],
        actual: Sequence[int | None],
        seen: Sequence[float],
        owner: dict[tuple[int, ...], Position],
    ) -> str:
        where = f"{self.operand}, {self._name(place)}"
        codes = [code for code in actual if code is not None]
        if len(codes) == len(actual):
            if (arrived := owner.get(tuple(codes))) is not None:
                return f"{where}: got the element of {self._name(arrived)}"
            wrong = {code ^ right for code, right in zip(codes, expected, strict=True)} - {0}
            if len(wrong) == 1 and (bits := wrong.pop()).bit_count() == 1:
                return f"{where}: bit {bits.bit_length() - 1 + FORMATS[self.format].shift} is wrong"
        value = FORMATS[self.format].value
        index = next(i for i, (code, right) in enumerate(zip(actual, expected, strict=True)) if code != right)
        return f"{where}: expected {value(expected[index]):g}, got {seen[index]:g}"

    def _name(self, place: Position) -> str:
        return ", ".join(f"{name} {index}" for name, index in zip(self.along, place, strict=True))


class ProductProbes:
    """The probes of a product."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.rng = random.Random(form.name)
        self.operands: list[Operands] = []
        self.readbacks = [self._elements("A"), self._elements("B")]
        for selection, operand in itertools.product(range(len(form.selections)), ("A", "B")):
            self.readbacks.append(self._scales(operand, selection))
        self.products = {self._add(self._sums()): "sums"}
        self.products |= {self._add(self._small()): "product" for _ in range(_PRODUCTS)}

    def words(self) -> list[list[int]]:
        """The operands' words of each probe."""
        places = PRODUCTS[self.form.places]
        return [places.words(self.form, operands, self.rng) for operands in self.operands]

    def faults(self, results: Sequence[Sequence[int]]) -> list[str]:
        """What is wrong, a line each; empty if nothing is. `results`: the words that each probe answered."""
        places = PRODUCTS[self.form.places]
        words = [places.product(self.form, result) for result in results]
        values = [[[self._value(word) for word in row] for row in d] for d in words]
        lines = [line for readback in self.readbacks for line in readback.faults(values)]
        for probe, what in self.products.items():
            lines += self._wrong_sums(what, self.operands[probe], values[probe])
        return lines

    # Making operands.

    def _add(self, operands: Operands) -> int:
        self.operands.append(operands)
        return len(self.operands) - 1

    def _constant(self, rows: int, columns: int, code: int) -> Matrix:
        return [[code] * columns for _ in range(rows)]

    def _ones(self, rows: int, name: str) -> Matrix:
        return self._constant(rows, self.form.blocks, FORMATS[name].one()) if self.form.blocks else []

    def _with(self, a: Matrix | None = None, b: Matrix | None = None, c: Matrix | None = None) -> Operands:
        """Operands that are zeros unless they are given, with scale factors of 1."""
        form = self.form
        return Operands(
            self._constant(form.m, form.k, 0) if a is None else a,
            self._constant(form.n, form.k, 0) if b is None else b,
            self._constant(form.m, form.n, 0) if c is None else c,
            self._ones(form.m, form.scales),
            self._ones(form.n, form.scales),
        )

    def _coded(self, name: str, rows: int, columns: int) -> list[dict[Position, int]]:
        """Codes for each round and position, so that no two positions have the same ones."""
        positions = list(itertools.product(range(rows), range(columns)))
        rounds = 6 if len(usable(name)) < 32 else 3
        while True:
            codes = [{place: self.rng.choice(usable(name)) for place in positions} for _ in range(rounds)]
            if len({tuple(of_round[place] for of_round in codes) for place in positions}) == len(positions):
                return codes

    def _elements(self, operand: str) -> Readback:
        """Reads all elements of A or B: the other operand is a diagonal, which moves along k."""
        form, is_a = self.form, operand == "A"
        name, lines, opposite, step = (
            (form.a, form.m, form.b, form.n) if is_a else (form.b, form.n, form.a, form.m)
        )
        readback = Readback(
            operand, ("row" if is_a else "column", "k"), name, self._coded(name, lines, form.k)
        )
        for codes in readback.codes:
            matrix = [[codes[line, k] for k in range(form.k)] for line in range(lines)]
            shown: dict[Position, Shown] = {}
            for first in range(0, form.k, step):
                diagonal = self._diagonal(opposite, step, first)
                probe = self._add(
                    self._with(a=matrix, b=diagonal) if is_a else self._with(a=diagonal, b=matrix)
                )
                for line, k in itertools.product(range(lines), range(first, min(first + step, form.k))):
                    shown[line, k] = (probe, line, k - first) if is_a else (probe, k - first, line)
            readback.shown.append(shown)
        return readback

    def _diagonal(self, name: str, rows: int, first: int) -> Matrix:
        """1 where k is `first` plus the row's number, 0 elsewhere."""
        code = FORMATS[name].one()
        return [[code if k == first + row else 0 for k in range(self.form.k)] for row in range(rows)]

    def _scales(self, operand: str, selection: int) -> Readback:
        form = self.form
        rows = form.m if operand == "A" else form.n
        along = ("row" if operand == "A" else "column", "block")
        readback = Readback(
            f"scale factors of {operand} ({_selected(form.selections[selection])})",
            along,
            form.scales,
            self._coded(form.scales, rows, form.blocks),
        )
        for codes in readback.codes:
            scales = [[codes[row, block] for block in range(form.blocks)] for row in range(rows)]
            shown: dict[Position, Shown] = {}
            for block in range(form.blocks):
                k = self.rng.randrange(form.k // form.blocks) + block * (form.k // form.blocks)
                a = [[FORMATS[form.a].one() if i == k else 0 for i in range(form.k)]] * form.m
                b = [[FORMATS[form.b].one() if i == k else 0 for i in range(form.k)]] * form.n
                operands = replace(self._with(a, b), selection=selection)
                if operand == "A":
                    probe = self._add(replace(operands, a_scales=scales))
                else:
                    probe = self._add(replace(operands, b_scales=scales))
                for row in range(rows):
                    at = (row, row % form.n) if operand == "A" else (row % form.m, row)
                    shown[row, block] = probe, *at
            readback.shown.append(shown)
        return readback

    def _sums(self) -> Operands:
        """A different number in each element of C, and zeros."""
        form = self.form
        numbers = self.rng.sample(range(1, form.m * form.n + 1), form.m * form.n)
        rows = [numbers[row * form.n : (row + 1) * form.n] for row in range(form.m)]
        return self._with(c=[[self._word(number) for number in row] for row in rows])

    def _small(self) -> Operands:
        form, choice = self.form, self.rng.choice

        def matrix(name: str, rows: int, columns: int) -> Matrix:
            return [[choice(small(name)) for _ in range(columns)] for _ in range(rows)]

        c = [[self._word(self.rng.randrange(-64, 64)) for _ in range(form.n)] for _ in range(form.m)]
        operands = self._with(matrix(form.a, form.m, form.k), matrix(form.b, form.n, form.k), c)
        if not form.blocks:
            return operands
        scales = [matrix(form.scales, rows, form.blocks) for rows in (form.m, form.n)]
        return replace(operands, a_scales=scales[0], b_scales=scales[1])

    # Reading results.

    def _word(self, number: int) -> int:
        return number & 0xFFFFFFFF if self.form.a == "s8" else float_word(number)

    def _value(self, word: int) -> float:
        if self.form.a == "s8":
            return word - (1 << 32) if word >> 31 else word
        return word_float(word)

    def _wrong_sums(self, what: str, operands: Operands, d: Sequence[Sequence[float]]) -> list[str]:
        lines = []
        for row, column in itertools.product(range(self.form.m), range(self.form.n)):
            expected, actual = self._expected(operands, row, column), d[row][column]
            if actual != expected:
                lines.append(f"{what}, row {row}, column {column}: expected {expected:g}, got {actual:g}")
        more = len(lines) - _MOST_SHOWN
        return [*lines[:_MOST_SHOWN], f"{what}: {more} more elements"] if more > 0 else lines

    def _expected(self, operands: Operands, row: int, column: int) -> float:
        form = self.form
        a, b = FORMATS[form.a], FORMATS[form.b]
        total = self._value(operands.c[row][column])
        for k in range(form.k):
            product = a.value(operands.a[row][k]) * b.value(operands.b[column][k])
            if form.blocks:
                scale, block = FORMATS[form.scales], k * form.blocks // form.k
                product *= scale.value(operands.a_scales[row][block])
                product *= scale.value(operands.b_scales[column][block])
            total += product
        return total


def _selected(selection: Selection) -> str:
    byte_a, byte_b, thread_a, thread_b = selection
    return f"bytes {byte_a} and {byte_b}, threads {thread_a} and {thread_b}"


class LoadProbes:
    """The probes of a load of matrices: 32 rows of 16 bytes of random bits."""

    def __init__(self, form: Load) -> None:
        self.form = form
        rng = random.Random(form.name)
        self.rows: list[Matrix] = [
            [[rng.getrandbits(32) for _ in range(4)] for _ in range(32)] for _ in range(_LOAD_ROUNDS)
        ]

    def words(self) -> list[list[int]]:
        return [[word for row in rows for word in row] for rows in self.rows]

    def faults(self, results: Sequence[Sequence[int]]) -> list[str]:
        word_of = LOADS[self.form.places]
        lines = []
        for rows, result in zip(self.rows, results, strict=True):
            for lane, matrix in itertools.product(range(32), range(4)):
                expected, actual = word_of(rows, lane, matrix), result[lane * 4 + matrix]
                if actual != expected:
                    bit = (actual ^ expected).bit_length() - 1
                    lines.append(
                        f"lane {lane}, matrix {matrix}: bit {bit} is wrong: {actual:#010x}, expected "
                        f"{expected:#010x}"
                    )
        more = len(lines) - _MOST_SHOWN
        return [*lines[:_MOST_SHOWN], f"{more} more words"] if more > 0 else lines


def probes_of(form: Form | Load) -> ProductProbes | LoadProbes:
    """The probes of a form."""
    return LoadProbes(form) if isinstance(form, Load) else ProductProbes(form)
