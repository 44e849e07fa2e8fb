"""The reference of a block-scaled product: a sum of exact fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
import torch
from block_formats import E4M3, FORMATS, SIGN, TABLES, codes_of, matrix, operands

from tilewright import reference, scale_factors
from tilewright.errors import ArgumentError

# The product


PAIRS = [
    *((name, name) for name in FORMATS),
    ("mxfp8", "mxfp4"),
    ("mxfp4", "mxfp8"),
    ("mxfp8_e5m2", "mxfp4"),
]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("layout", scale_factors.LAYOUTS)
def test_product_is_the_sum_of_exact_fractions(pair: tuple[str, str], layout: str) -> None:
    m, n, k = 3, 5, 80
    a, b, a_scales, b_scales = operands(m, n, k, pair, layout)
    c = torch.randn(m, n).bfloat16()
    actual = reference.product(
        a, b, a_scales, b_scales, pair[0], format_b=pair[1], alpha=0.5, beta=-2.0, c=c, layout=layout
    )
    sizes = reference.magnitude(
        a, b, a_scales, b_scales, pair[0], format_b=pair[1], alpha=-0.5, beta=-2.0, c=c, layout=layout
    )
    blocks = [reference.FORMATS[name].block for name in pair]
    codes = [codes_of(data, name, k) for data, name in zip((a, b.mT.contiguous()), pair, strict=True)]

    def value(side: int, scales: torch.Tensor, row: int, i: int) -> Fraction:
        kind = reference.FORMATS[pair[side]]
        table, code = TABLES[kind.element], codes[side][row][i]
        at = scale_factors.index(row, i // blocks[side], k, blocks[side], layout)
        scale = scales.view(torch.uint8).flatten()[at].item()
        size = Fraction(table[code % SIGN[kind.element]]) * (-1 if code >= SIGN[kind.element] else 1)
        return size * (Fraction(E4M3[scale]) if kind.scale == "e4m3" else Fraction(2) ** (scale - 127))

    for i, j in itertools.product(range(m), range(n)):
        terms = [value(0, a_scales, i, t) * value(1, b_scales, j, t) for t in range(k)]
        other = Fraction(float(c[i, j]))
        exact = sum(terms) / 2 - 2 * other
        size = sum(map(abs, terms)) / 2 + 2 * abs(other)
        assert abs(Fraction(float(actual[i, j])) - exact) <= k * Fraction(2) ** -53 * size
        assert abs(Fraction(float(sizes[i, j])) - size) <= k * Fraction(2) ** -53 * size


def test_product_of_batches_and_shared_b() -> None:
    a, a_scales = reference.quantize(matrix((2, 7, 64)), "nvfp4")
    b, b_scales = reference.quantize(matrix((2, 9, 64), seed=5), "nvfp4")
    actual = reference.product(a, b.mT, a_scales, b_scales, "nvfp4")
    shared = reference.product(a, b[1].mT, a_scales, b_scales[1], "nvfp4")
    for i in range(2):
        expected = reference.product(a[i], b[i].mT, a_scales[i], b_scales[i], "nvfp4")
        assert torch.equal(actual[i], expected)
    assert torch.equal(shared[1], actual[1])
    with pytest.raises(ArgumentError, match="b: batch"):
        reference.product(a, b[:1].mT, a_scales, b_scales[:1], "nvfp4")


def test_alpha_undoes_the_global_scales() -> None:
    x, y = torch.randn(32, 256), torch.randn(48, 256)
    gs = [reference.nvfp4_global_scale(value) for value in (x, y)]
    a, a_scales = reference.quantize(x, "nvfp4", gs[0])
    b, b_scales = reference.quantize(y, "nvfp4", gs[1])
    actual = reference.product(a, b.mT, a_scales, b_scales, "nvfp4", alpha=1 / (gs[0] * gs[1]))
    left = reference.dequantize(a, a_scales, "nvfp4", global_scale=gs[0])
    right = reference.dequantize(b, b_scales, "nvfp4", global_scale=gs[1])
    torch.testing.assert_close(actual, left @ right.T, rtol=1e-6, atol=1e-6)
    exact = x.double() @ y.double().T
    assert float(torch.nn.functional.cosine_similarity(actual.flatten(), exact.flatten(), dim=0)) > 0.98


@pytest.mark.parametrize(
    ("argument", "change"),
    [
        ("a_scales", {"a_scales": lambda s: s[:31]}),
        ("b_scales", {"b_scales": lambda s: s.flatten()[:-1]}),
        ("a_scales", {"a_scales": lambda s: s.float()}),
        ("b", {"b": lambda b: b[:-8]}),
        ("b", {"b": lambda b: b[0]}),
        ("a", {"a": lambda a: a.float()}),
        ("format_a", {"format_a": lambda f: "fp4"}),
        ("alpha", {"alpha": lambda _: torch.ones(2)}),
        ("c", {"beta": lambda _: 1.0}),
    ],
)
def test_wrong_operands_are_named(argument: str, change: dict[str, object]) -> None:
    a, b, a_scales, b_scales = operands(31, 40, 256, ("nvfp4", "nvfp4"))
    arguments = {"a": a, "b": b, "a_scales": a_scales, "b_scales": b_scales, "format_a": "nvfp4"}
    reference.product(**arguments)
    for name, make in change.items():
        arguments[name] = make(arguments.get(name))  # type: ignore[operator]
    if "b" in change and argument == "b" and arguments["b"].ndim == 2:
        arguments["b_scales"] = reference.quantize(torch.ones(40, 240), "nvfp4")[1]
    with pytest.raises(ArgumentError) as e:
        reference.product(**arguments)
    assert e.value.argument == argument
