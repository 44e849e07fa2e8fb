"""The self-test of wgmma and tcgen05: every element of an operand reaches its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tilewright.tools.self_test import forms
from tilewright.tools.self_test.forms import Form
from tilewright.tools.self_test.numbers import FORMATS, float_word, word_float
from tilewright.tools.self_test.probes import ProductProbes, probes_of

WGMMA_FORMS = [form for form in forms.of_arch("sm_90a") if isinstance(form, Form) and "wgmma" in form.name]
TENSOR_FORMS = [form for form in forms.of_arch("sm_100f") if isinstance(form, Form)]


# wgmma: shared memory as the tensor core reads it, by the PTX ISA's XOR of address bits 4 to 6 with 7 to 9.


def element(words: Sequence[int], row: int, bit: int) -> int:
    """32 bits that begin at a bit of a row of 128 bytes."""
    byte = row * 128 + bit // 8
    byte ^= (byte >> 7 & 7) << 4
    return words[byte // 4] >> bit % 32


@pytest.mark.parametrize("form", [form for form in WGMMA_FORMS if form.places == "wgmma_shared"],
                         ids=lambda form: form.name)  # fmt: skip
def test_operands_of_wgmma(form: Form) -> None:
    """The product of what the images hold, at the places where the ISA puts sums."""
    probes = probes_of(form)
    bits, a, b = FORMATS[form.a].bits, FORMATS[form.a], FORMATS[form.b]
    mask, results = (1 << bits) - 1, []
    for words in probes.words():
        image_b, sums = words[64 * 32 : 80 * 32], words[80 * 32 :]
        result = []
        rows = [
            [a.value(element(words, row, 256 + k * bits) & mask) for k in range(form.k)] for row in range(64)
        ]
        columns = [
            [b.value(element(image_b, row, 256 + k * bits) & mask) for k in range(form.k)]
            for row in range(16)
        ]
        for thread in range(128):
            for i in range(8):
                # PTX ISA, "Register Fragments" of wgmma: each warp has 16 rows, in groups of 8 columns.
                row = thread // 32 * 16 + thread % 32 // 4 + i // 2 % 2 * 8
                column = i // 4 * 8 + thread % 4 * 2 + i % 2
                total = word_float(sums[thread * 8 + i])
                total += sum(x * y for x, y in zip(rows[row], columns[column], strict=True) if x and y)
                result.append(float_word(total))
        results.append(result)
    assert probes.faults(results) == []
    results[0][17] ^= 1 << 20
    assert probes.faults(results) != []


# tcgen05: images as wgmma's, factors in atoms, sums by lane and column.


def tensor_element(words: Sequence[int], name: str, row: int, k: int) -> float:
    """An element of the second 32 bytes of a row. Beside FP8, 16 of E2M1 lie in 8 of 16 bytes."""
    kind = FORMATS[name]
    bit = 256 + (k // 16 * 128 + k % 16 * 4 if name == "e2m1_in_halves" else k * kind.bits)
    return kind.value((element(words, row, bit) & ((1 << kind.bits) - 1)) >> kind.shift)


def factors(words: Sequence[int], form: Form, row: int, first: int) -> list[float]:
    """PTX ISA, "tcgen05-mma-scale-factor": row r is lane r % 32 of column r / 32; an atom is copied to 32
    lanes of four columns."""
    word = words[row % 32 * 4 + row // 32]
    return [FORMATS[form.scales].value(word >> 8 * (first + block) & 0xFF) for block in range(form.blocks)]


def by_tensor_core(form: Form, words: Sequence[int]) -> list[int]:
    """What the kernel of a form answers, if the instruction is as the ISA defines it."""
    images, block = (form.m + form.n) * 32, form.k // max(form.blocks, 1)
    sums = words[images + (256 if form.blocks else 0) :][: form.m * form.n]
    sides = []
    for name, rows, image, atom, byte in (
        (form.a, form.m, 0, images, -2),
        (form.b, form.n, form.m * 32, images + 128, -1),
    ):
        held = words[image:images]
        values = np.array(
            [[tensor_element(held, name, row, k) for k in range(form.k)] for row in range(rows)]
        )
        if form.blocks:
            own = [factors(words[atom : atom + 128], form, row, words[byte]) for row in range(rows)]
            values *= np.repeat(own, block, 1)
        sides.append(values)
    old = np.array(sums, "u4").view("f4").astype(float).reshape(form.m, form.n)
    with np.errstate(over="ignore"):  # factors that no test writes may be large
        return [int(word) for word in (old + sides[0] @ sides[1].T).astype("f4").view("u4").ravel()]


@pytest.mark.parametrize("form", TENSOR_FORMS, ids=lambda form: form.name)
def test_operands_of_tcgen05(form: Form) -> None:
    """The product of what images and atoms hold, and a fault of the last row of A."""
    probes = probes_of(form)
    assert isinstance(probes, ProductProbes)
    results = [by_tensor_core(form, words) for words in probes.words()]
    assert probes.faults(results) == []
    results[-1][127 * 16 + 15] ^= 1 << 20
    assert probes.faults(results) != []


@pytest.mark.parametrize(
    ("part", "change", "line"),
    [
        ("1X", lambda words: words[:-2] + words[-1:] + words[-2:-1], "scale factors of A (bytes 1 and 3, "),
        ("2X", lambda words: [*words[:-2], words[-2] ^ 2, words[-1]], "scale factors of A (bytes 0 and 0, "),
        ("4X", lambda words: words[: 144 * 32] + words[144 * 32 + 128 :][:128] * 2 + words[144 * 32 + 256 :],
         "scale factors of A (bytes 0 and 0, "),
    ],
)  # fmt: skip
def test_wrong_factors_of_tcgen05_are_named(
    part: str, change: Callable[[list[int]], list[int]], line: str
) -> None:
    """Bytes of A and B exchanged; the other two bytes of A; B's factors for A's, too."""
    form = next(form for form in TENSOR_FORMS if f", {part} " in form.name)
    probes = probes_of(form)
    results = [by_tensor_core(form, change(list(words))) for words in probes.words()]
    assert any(fault.startswith(line) for fault in probes.faults(results))
