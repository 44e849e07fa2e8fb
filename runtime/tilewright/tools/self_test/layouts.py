"""Where elements lie in the registers of a warp or in shared memory, by the PTX ISA.

The words of a probe are in the order that the kernel reads (`self_test/*.hpp`). Bytes, lanes and threads
that an instruction does not read hold random bits.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tilewright.tools.self_test.forms import Form
from tilewright.tools.self_test.numbers import FORMATS

Matrix = list[list[int]]  # codes, row by row


@dataclass(frozen=True)
class Operands:
    """A product's operands: codes of A [m, k], B [n, k] and scale factors [m or n, blocks]; words of C."""

    a: Matrix
    b: Matrix
    c: Matrix
    a_scales: Matrix = field(default_factory=list)
    b_scales: Matrix = field(default_factory=list)
    selection: int = 0  # of the form's


@dataclass(frozen=True)
class Places:
    """How operands become words, and how words of results are rows of D."""

    words: Callable[[Form, Operands, random.Random], list[int]]
    product: Callable[[Form, Sequence[int]], Matrix]


# Registers. PTX ISA, "Matrix Fragments for mma.m16n8k16", "... m16n8k32", "... m16n8k64", and "Register
# Fragments and Shared Memory Matrix Layouts" of wgmma, whose warps hold 16 rows each.


def _a_registers(form: Form, a: Matrix) -> list[int]:
    """Four words for each thread: rows g and g + 8 for the lower half of k, then for the upper half."""
    elements = 32 // FORMATS[form.a].bits
    words = []
    for thread in range(form.m * 2):
        group, of_four = thread % 32 // 4 + thread // 32 * 16, thread % 4
        for half in range(2):
            k = half * form.k // 2 + of_four * elements
            for row in (group, group + 8):
                words.append(_joined(form.a, a[row][k : k + elements]))
    return words


def _b_registers(form: Form, b: Matrix) -> list[int]:
    """Two words for each lane: column g for the lower and the upper half of k."""
    elements = 32 // FORMATS[form.b].bits
    words = []
    for lane in range(32):
        for half in range(2):
            k = half * form.k // 2 + lane % 4 * elements
            words.append(_joined(form.b, b[lane // 4][k : k + elements]))
    return words


def _sum_places(form: Form) -> list[tuple[int, int]]:
    """Row and column of each word of sums: n / 2 for each thread, two neighbours for each half of 16 rows."""
    places = []
    for thread in range(form.m * 2):
        group, of_four = thread % 32 // 4 + thread // 32 * 16, thread % 4
        for columns in range(0, form.n, 8):
            for row in (group, group + 8):
                places += [(row, columns + of_four * 2), (row, columns + of_four * 2 + 1)]
    return places


def _scale_registers(
    codes: Matrix, scales: str, byte: int, lane_of: Callable[[int], int], rng: random.Random
) -> list[int]:
    """A word for each lane. PTX ISA, "Block scaling for mma.sync"."""
    words = [rng.getrandbits(32) for _ in range(32)]
    for row, factors in enumerate(codes):
        for block, factor in enumerate(factors):
            shift = 8 * (byte + block)
            kept = words[lane_of(row)] & ~(0xFF << shift)
            words[lane_of(row)] = kept | FORMATS[scales].code(factor) << shift
    return words


def _joined(name: str, codes: Sequence[int]) -> int:
    """Elements in one number, the first in the lowest bits."""
    form = FORMATS[name]
    return sum(form.code(code) << form.bits * i for i, code in enumerate(codes))


def _sums(form: Form, c: Matrix) -> list[int]:
    return [c[row][column] for row, column in _sum_places(form)]


def _product(form: Form, words: Sequence[int]) -> Matrix:
    d = [[0] * form.n for _ in range(form.m)]
    for (row, column), word in zip(_sum_places(form), words, strict=True):
        d[row][column] = word
    return d


def _mma_words(form: Form, operands: Operands, rng: random.Random) -> list[int]:
    selection = form.selections[operands.selection] if form.selections else (0, 0, 0, 0)
    byte_a, byte_b, thread_a, thread_b = selection
    return [
        *_a_registers(form, operands.a),
        *_b_registers(form, operands.b),
        *_sums(form, operands.c),
        *_scale_registers(
            operands.a_scales, form.scales, byte_a, lambda row: row % 8 * 4 + thread_a * 2 + row // 8, rng
        ),
        *_scale_registers(operands.b_scales, form.scales, byte_b, lambda column: column * 4 + thread_b, rng),
        *[operands.selection] * 32,
    ]


# Shared memory of wgmma: rows of 128 bytes, k contiguous, of which the second 32 bytes are multiplied. The
# swizzle exchanges 16-byte units of a row by the row's number.
_STEP = 1


def _image(form: Form, name: str, rows: Matrix, rng: random.Random) -> list[int]:
    elements = 32 // FORMATS[name].bits
    words = [rng.getrandbits(32) for _ in range(len(rows) * 32)]
    for row, codes in enumerate(rows):
        for index in range(8):
            word = _STEP * 8 + index
            unit = word // 4 ^ row % 8
            words[row * 32 + unit * 4 + word % 4] = _joined(
                name, codes[index * elements : (index + 1) * elements]
            )
    return words


def _wgmma_shared_words(form: Form, operands: Operands, rng: random.Random) -> list[int]:
    images = [*_image(form, form.a, operands.a, rng), *_image(form, form.b, operands.b, rng)]
    return images + _sums(form, operands.c)


def _wgmma_registers_words(form: Form, operands: Operands, rng: random.Random) -> list[int]:
    registers = _a_registers(form, operands.a)
    return registers + _image(form, form.b, operands.b, rng) + _sums(form, operands.c)


# tcgen05: images as wgmma's; scale factors in atoms of 32 rows of 16 bytes, of which row r % 32 holds the
# word of row r at word r / 32; sums by row (lane) and column.


def _tensor_image(form: Form, name: str, rows: Matrix, rng: random.Random) -> list[int]:
    """Beside FP8, 16 elements of FP4 lie in the first half of 16 bytes, and nothing in the second."""
    if name != "e2m1_in_halves":
        return _image(form, name, rows, rng)
    words = [rng.getrandbits(32) for _ in range(len(rows) * 32)]
    for row, codes in enumerate(rows):
        for unit in range(2):
            for half in range(2):
                first = unit * 16 + half * 8
                place = row * 32 + ((_STEP * 2 + unit) ^ row % 8) * 4 + half
                words[place] = _joined(name, codes[first : first + 8])
    return words


def _atom(codes: Matrix, scales: str, byte: int, rng: random.Random) -> list[int]:
    words = [rng.getrandbits(32) for _ in range(128)]
    for row, factors in enumerate(codes):
        place = row % 32 * 4 + row // 32
        for block, factor in enumerate(factors):
            shift = 8 * (byte + block)
            words[place] = words[place] & ~(0xFF << shift) | FORMATS[scales].code(factor) << shift
    return words


def _tcgen05_words(form: Form, operands: Operands, rng: random.Random) -> list[int]:
    words = [
        *_tensor_image(form, form.a, operands.a, rng),
        *_tensor_image(form, form.b, operands.b, rng),
    ]
    sums = [word for row in operands.c for word in row]
    if not form.blocks:
        return words + sums
    byte_a, byte_b, *_ = form.selections[operands.selection]
    words += _atom(operands.a_scales, form.scales, byte_a, rng)
    words += _atom(operands.b_scales, form.scales, byte_b, rng)
    return [*words, *sums, byte_a, byte_b]


def _tcgen05_product(form: Form, words: Sequence[int]) -> Matrix:
    return [list(words[row * form.n : (row + 1) * form.n]) for row in range(form.m)]


PRODUCTS = {
    "registers": Places(_mma_words, _product),
    "tcgen05": Places(_tcgen05_words, _tcgen05_product),
    "wgmma_shared": Places(_wgmma_shared_words, _product),
    "wgmma_registers": Places(_wgmma_registers_words, _product),
}


# ldmatrix: matrix i has rows 8i to 8i + 7 of 16 bytes; each lane gets a word of each matrix.


def _bits_of(row: Sequence[int], first: int, count: int) -> int:
    return (row[first // 32] >> first % 32) & ((1 << count) - 1)


def _row_word(rows: Matrix, lane: int, matrix: int) -> int:
    return rows[matrix * 8 + lane // 4][lane % 4]


def _transposed_word(rows: Matrix, lane: int, matrix: int) -> int:
    """Two elements of 16 bits of a column."""
    low, high = (_bits_of(rows[matrix * 8 + lane % 4 * 2 + i], lane // 4 * 16, 16) for i in range(2))
    return low | high << 16


def _e2m1_word(rows: Matrix, lane: int, matrix: int) -> int:
    """Four elements of 4 bits, each in the lower half of a byte."""
    row = rows[matrix * 8 + lane // 4]
    return sum(_bits_of(row, (lane % 4 * 4 + i) * 4, 4) << 8 * i for i in range(4))


LOADS: dict[str, Callable[[Matrix, int, int], int]] = {
    "rows": _row_word,
    "transposed": _transposed_word,
    "e2m1_rows": _e2m1_word,
}
"""The word that a lane gets of a matrix."""
