"""`tilewright.einsum`: which product of matrices an equation is, and that it is one of views."""

from __future__ import annotations

import logging
import random

import pytest
import torch
from einsum_operands import EXTENTS, operand, terms

import tilewright
from tilewright.context import Context
from tilewright.contractions import einsum as contractions
from tilewright.contractions.equations import contraction
from tilewright.errors import ArgumentError


@pytest.mark.parametrize(
    ("equation", "batch", "rows", "columns", "summed"),
    [
        ("bhr,hdr->bhd", "h", "b", "d", "r"),
        ("bhd,hdr->bhr", "h", "b", "r", "d"),
        ("bhd,bhr->hdr", "h", "d", "r", "b"),
        ("bmk,bnk->mn", "", "m", "n", "bk"),
        ("mk,kn->nm", "", "n", "m", "k"),
        ("mk,k->m", "", "", "m", "k"),
        ("gbmk,gkn->gbmn", "g", "bm", "n", "k"),
    ],
)
def test_letters_of_an_equation_have_kinds(
    equation: str, batch: str, rows: str, columns: str, summed: str
) -> None:
    actual = contraction(equation)
    assert (actual.batch, actual.rows, actual.columns, actual.summed) == (batch, rows, columns, summed)


@pytest.mark.parametrize(
    ("equation", "reason"),
    [
        ("mk,kn", "expected two tensors"),
        ("mk->km", "expected two tensors"),
        ("m1,1n->mn", "expected two tensors"),
        ("mkk,kn->mn", "'mkk' has a letter twice"),
        ("...k,kn->...n", "their product, in letters alone: 'ab,bc->ac'"),
        ("mk,kn->m", "'n' is in one term only"),
        ("mk,kn->mnx", "'x' is in one term only"),
        ("bmk,bkn->mnb", "'b' counts a batch"),
    ],
)
def test_what_is_no_product_is_refused(equation: str, reason: str) -> None:
    with pytest.raises(ArgumentError, match=reason):
        contraction(equation)


def test_the_stride_of_an_extent_of_1_means_nothing(host: Context) -> None:
    """Frameworks write any number there: rows of one matrix are rows of `gm` all the same."""
    a, b = operand("mk", 0)[None], operand("nk", 1)
    out = torch.zeros(24 * 40, dtype=torch.bfloat16).as_strided((1, 24, 40), (7, 40, 1))
    assert tilewright.einsum("gmk,nk->gmn", a, b, out=out) is out
    torch.testing.assert_close(out[0], (a[0].double() @ b.double().T).bfloat16(), rtol=1.6e-2, atol=1e-2)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(
    "equation",
    [
        "bhr,hdr->bhd",
        "bhd,bhr->hdr",
        "mk,nk->mn",
        "gbmk,gnk->gbmn",
        "km,kn->mn",
        "mk,nk->nm",
        "mk,k->m",
    ],
)
def test_equals_torch_einsum(host: Context, equation: str, given: bool) -> None:
    term_a, term_b, term = terms(equation)
    a, b = operand(term_a, 0), operand(term_b, 1)
    c = operand(term, 2)
    expected = 2.0 * torch.einsum(equation, a.double(), b.double()) - 0.5 * c.double()
    out = torch.full_like(c, float("nan")) if given else None
    made = tilewright.einsum(equation, a, b, out=out, c=c, alpha=2.0, beta=-0.5)
    assert out is None or made is out
    assert made.shape == c.shape
    assert made.is_contiguous()
    torch.testing.assert_close(made, expected.bfloat16(), rtol=1.6e-2, atol=1e-2)


def test_nothing_is_copied_of_what_lies_strided(host: Context, caplog: pytest.LogCaptureFixture) -> None:
    b, h, r, d = 6, 3, 16, 8
    a = torch.randn(b, h, r).bfloat16()
    wide = torch.randn(h, d, r + 8).bfloat16()
    out = torch.full((b, h + 1, d), float("nan"), dtype=torch.bfloat16)
    with caplog.at_level(logging.WARNING):
        tilewright.einsum("bhr,hdr->bhd", a, wide[..., :r], out=out[:, :h])
    assert not caplog.messages
    expected = torch.einsum("bhr,hdr->bhd", a.double(), wide[..., :r].double())
    torch.testing.assert_close(out[:, :h], expected.bfloat16(), rtol=1.6e-2, atol=1e-2)
    assert out[:, h].isnan().all()


@pytest.mark.parametrize("equation", ["b,mn->mbn", "hm,bn->hbmn", "bmk,bhkn->hbmn"])
def test_letters_that_stand_apart_in_the_product(all_hosts: Context, equation: str) -> None:
    """They cannot be one extent of what a kernel writes: the error says an equation that can."""
    term_a, term_b, _ = terms(equation)
    with pytest.raises(ArgumentError, match="side by side in the product: write '->") as error:
        tilewright.einsum(equation, operand(term_a, 0), operand(term_b, 1))
    proposed = str(error.value).partition("'->")[2].partition("'")[0]
    actual = tilewright.einsum(
        f"{equation.partition('->')[0]}->{proposed}", operand(term_a, 0), operand(term_b, 1)
    )
    assert actual.shape == tuple(EXTENTS[letter] for letter in proposed)


@pytest.mark.parametrize("equation", ["bmk,bnk->mn", "bnk,bmk->mn", "bkm,bkn->mn", "bmdk,bndk->mn"])
def test_sums_of_several_letters(all_hosts: Context, equation: str) -> None:
    term_a, term_b, term = terms(equation)
    a, b, c = operand(term_a, 0), operand(term_b, 1), operand(term, 2)
    expected = torch.einsum(equation, a.double(), b.double()) + 2.0 * c.double()
    made = tilewright.einsum(equation, a, b, c=c, beta=2.0)
    torch.testing.assert_close(made, expected.bfloat16(), rtol=1.6e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("equation", "dtype", "copies"),
    [
        ("bmk,bnk->mn", torch.bfloat16, ""),
        ("bmdk,bndk->mn", torch.bfloat16, ""),
        ("bkm,bkn->mn", torch.bfloat16, ""),  # b and k follow one another
        ("bmk,bkn->mn", torch.bfloat16, "a"),  # k is not contiguous in b
        ("bmk,bnk->mn", torch.float32, "ab"),
    ],
)
def test_what_is_added_up_over_a_batch_is_not_copied(
    all_hosts: Context, caplog: pytest.LogCaptureFixture, equation: str, dtype: torch.dtype, copies: str
) -> None:
    term_a, term_b, _ = terms(equation)
    with caplog.at_level(logging.WARNING):
        tilewright.einsum(equation, operand(term_a, 0, dtype), operand(term_b, 1, dtype))
    assert {name for name in "ab" if f"einsum: copies {name}" in caplog.text} == set(copies)


def term_at_random(chance: random.Random, kinds: dict[str, str], wanted: str) -> list[str]:
    letters = [letter for letter, kind in kinds.items() if kind in wanted]
    chance.shuffle(letters)
    return letters


def lying_at_random(chance: random.Random, shape: list[int]) -> torch.Tensor:
    """A tensor whose dimensions lie in any order in memory, some with gaps behind them."""
    order = list(range(len(shape)))
    chance.shuffle(order)
    room = [shape[i] + chance.choice((0, 0, 3)) for i in order]
    made = torch.randn(room).bfloat16().permute([order.index(i) for i in range(len(shape))])
    return made[tuple(slice(extent) for extent in shape)]


@pytest.mark.parametrize("seed", range(6))
def test_equations_at_random(all_hosts: Context, seed: int) -> None:
    """Each is computed as torch computes it, or refused: letters of batch, rows, columns and sum in any
    order, of tensors that lie anyhow."""
    chance, computed = random.Random(seed), 0
    torch.manual_seed(seed)
    for _ in range(25):
        kinds = {letter: chance.choice("brcs") for letter in "abcde"[: chance.randint(2, 5)]}
        extents = {letter: chance.choice((1, 2, 3, 5, 8, 16, 17)) for letter in kinds}
        terms = [term_at_random(chance, kinds, expected) for expected in ("brs", "bcs", "brc")]
        if not terms[0] or not terms[1]:
            continue
        equation = f"{''.join(terms[0])},{''.join(terms[1])}->{''.join(terms[2])}"
        a, b = (lying_at_random(chance, [extents[letter] for letter in term]) for term in terms[:2])
        options = {"alpha": 0.3}
        expected = 0.3 * torch.einsum(equation, a.double(), b.double())
        if chance.random() < 0.4:
            c = lying_at_random(chance, list(expected.shape))
            options |= {"c": c, "beta": -0.7}
            expected = expected - 0.7 * c.double()
        if expected.dim() and chance.random() < 0.4:
            options["out"] = torch.full(
                (*expected.shape[:-1], expected.shape[-1] + 8), float("nan")
            ).bfloat16()
            options["out"] = options["out"][..., : expected.shape[-1]]
        try:
            actual = tilewright.einsum(equation, a, b, **options)
        except ArgumentError:
            continue
        computed += 1
        assert actual.shape == expected.shape, equation
        error = (actual.double() - expected).norm() / expected.norm()
        assert error < 5e-3, f"{equation}, {extents}: error {error:.1e}"
    assert computed > 5


@pytest.mark.parametrize("which", ["rows", "batch"])
@pytest.mark.parametrize("at", [0, 1])
def test_batches_whose_strides_tma_does_not_read_are_copied(all_hosts: Context, which: str, at: int) -> None:
    """Batches of bmk,bnk->mn can be added up where rows and matrices begin at multiples of 16 bytes."""
    equation, rows = "bmk,bnk->mn", EXTENTS["mn"[at]]
    given = [operand(term, seed) for seed, term in enumerate(terms(equation)[:2])]
    strides = (24 * rows + 2, 24, 1) if which == "batch" else (20 * rows, 20, 1)
    room = torch.zeros(6 * strides[0] + 40 * 24, dtype=torch.bfloat16)
    given[at] = room.as_strided(given[at].shape, strides).copy_(given[at])
    expected = torch.einsum(equation, *(tensor.double() for tensor in given))
    actual = contractions.lowered_call(equation, *given, out=None, c=None)
    assert actual.op is tilewright.gemm
    assert actual.copies
    torch.testing.assert_close(
        tilewright.einsum(equation, *given), expected.bfloat16(), rtol=1.6e-2, atol=5e-2
    )


def test_a_sum_over_a_batch_of_rows_and_columns_of_1(all_hosts: Context) -> None:
    """Where k is 1, the sum is over one extent, whatever k's stride."""
    a, b = torch.ones(6, 24, 8).bfloat16(), torch.ones(6, 40, 8).bfloat16()
    narrow = [x[..., :1].as_strided((6, x.shape[1], 1), (x.stride(0), 8, 5)) for x in (a, b)]
    assert contractions.lowered_call("bmk,bnk->mn", *narrow, out=None, c=None).op is tilewright.gemm
    assert torch.equal(tilewright.einsum("bmk,bnk->mn", *narrow), torch.full((24, 40), 6.0).bfloat16())


@pytest.mark.parametrize("equation", ["abk,kc->bac", "kc,abk->bac", "kab,ck->bac"])
@pytest.mark.parametrize("given", [False, True])
def test_rows_whose_letters_the_product_has_in_another_order(
    host: Context, equation: str, given: bool
) -> None:
    extents = {"a": 3, "b": 5, "k": 16, "c": 8}
    generator = torch.Generator().manual_seed(1)
    left, right, result = (
        torch.randn([extents[x] for x in term], generator=generator).bfloat16() for term in terms(equation)
    )
    expected = torch.einsum(equation, left.double(), right.double()).bfloat16()
    options = {"out": result} if given else {}
    actual = tilewright.einsum(equation, left, right, **options)
    torch.testing.assert_close(actual, expected, rtol=1.6e-2, atol=2e-2)
