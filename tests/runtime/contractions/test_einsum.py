"""`tilewright.einsum`: which product of matrices an equation is, and that it is one of views."""

from __future__ import annotations

import logging
import random
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad

import tilewright
from tilewright.compat import deep_gemm
from tilewright.context import Context
from tilewright.contractions import einsum as contractions
from tilewright.contractions.equations import contraction
from tilewright.errors import ArgumentError

EXTENTS = {"b": 6, "h": 3, "r": 16, "d": 8, "m": 24, "n": 40, "k": 16, "g": 2}


def operand(term: str, seed: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn([EXTENTS[letter] for letter in term], generator=generator).to(dtype)


def terms(equation: str) -> tuple[str, str, str]:
    left, _, out = equation.partition("->")
    a, _, b = left.partition(",")
    return a, b, out


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
        ("mk,kn->m", "'n' stands in one term alone"),
        ("mk,kn->mnx", "'x' stands in one term alone"),
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


def test_an_output_whose_letters_are_apart_is_refused(host: Context) -> None:
    out = torch.empty(2, 7, 24, 40, dtype=torch.bfloat16)[:, :6]
    with pytest.raises(ArgumentError, match=r"out: its strides are .* expected gbm"):
        tilewright.einsum("gbmk,nk->gbmn", operand("gbmk", 0), operand("nk", 1), out=out)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"a": torch.zeros(6, 3)}, "a"),
        ({"b": torch.zeros(3, 8, 15)}, "b"),
        ({"out": torch.zeros(6, 3, 9)}, "out"),
        ({"c": torch.zeros(6, 3, 9)}, "c"),
    ],
)
def test_extents_that_differ_are_named(host: Context, change: dict[str, torch.Tensor], argument: str) -> None:
    operands = {"a": operand("bhr", 0), "b": operand("hdr", 1)} | change
    with pytest.raises(ArgumentError) as error:
        tilewright.einsum("bhr,hdr->bhd", operands.pop("a"), operands.pop("b"), **operands)
    assert error.value.argument == argument


@pytest.mark.parametrize("empty", list("abkcd"))
@pytest.mark.parametrize("given", [False, True])
def test_an_extent_of_0(
    all_hosts: Context, caplog: pytest.LogCaptureFixture, given: bool, empty: str
) -> None:
    """Strides of a tensor without elements say nothing of what follows what in memory."""
    extents = dict.fromkeys("abkcd", 8) | {empty: 0}
    a, b, out = (torch.ones([extents[x] for x in term]).bfloat16() for term in ("abkc", "kcd", "abd"))
    with caplog.at_level(logging.WARNING):
        made = tilewright.einsum("abkc,kcd->abd", a, b, out=out.fill_(float("nan")) if given else None)
    assert torch.equal(made, torch.einsum("abkc,kcd->abd", a, b))
    assert not caplog.messages


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"equation": None}, "equation"),
        ({"equation": ["mk,nk->nm"]}, "equation"),
        ({"a": [[1.0]]}, "a"),
        ({"b": None}, "b"),
        ({"c": 1.0, "beta": 1.0}, "c"),
        ({"out": "out"}, "out"),
        ({"a": torch.zeros(24, 16).to_sparse()}, "a"),
        ({"a": torch.zeros(24, 16, dtype=torch.float64)}, "a"),
        ({"b": torch.zeros(40, 16, dtype=torch.float64)}, "b"),
        ({"a": torch.zeros(24, 16, dtype=torch.bfloat16, requires_grad=True)}, "a"),
    ],
)
@pytest.mark.parametrize("equation", ["mk,nk->mn", "mk,nk->nm"])  # of the second the operands change places
@pytest.mark.parametrize("given", [False, True])
def test_the_argument_that_is_wrong_is_named(
    host: Context, equation: str, given: bool, change: dict[str, Any], argument: str
) -> None:
    call = {"equation": equation, "a": operand("mk", 0), "b": operand("nk", 1)}
    if given:
        call["out"] = operand(equation[-2:], 2)
    with pytest.raises(ArgumentError) as error:
        tilewright.einsum(**call | change)
    assert error.value.argument == argument
    assert str(error.value).startswith(argument)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("equation", ["bmk,kn->bmn", "bmk,bnk->mn"])
def test_exported_with_extents_that_are_symbols(all_hosts: Context, equation: str, strict: bool) -> None:
    """And run with strides that the example did not have."""

    class Model(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return tilewright.einsum(equation, a, b)

    term_a, term_b, _ = terms(equation)
    a, b = operand(term_a, 0), operand(term_b, 1)
    rows = ({1: torch.export.Dim("m", min=2, max=64)}, None)
    program = torch.export.export(Model(), (a, b), dynamic_shapes=rows, strict=strict).module()
    for m in (24, 7):
        assert torch.equal(program(a[:, :m], b), tilewright.einsum(equation, a[:, :m], b))


def test_an_exported_program_writes_to_what_it_is_given_or_fails(host: Context) -> None:
    class Model(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
            tilewright.einsum("bmk,kn->bmn", a, b, out=out)
            return out.clone()

    a, b = operand("bmk", 0), operand("kn", 1)
    expected = tilewright.einsum("bmk,kn->bmn", a, b)
    out = torch.full_like(expected, float("nan"))
    program = torch.export.export(Model(), (a, b, out)).module()
    assert torch.equal(program(a, b, out), expected)
    assert torch.equal(out, expected)
    apart = torch.full((6, 25, 40), float("nan")).bfloat16()[:, :24]
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        program(a, b, apart)


@pytest.mark.filterwarnings("error:Accessing the data pointer")
def test_no_launcher_is_made_for_fake_tensors(host: Context) -> None:
    """Out of their mode, too: it would build a kernel that nobody runs."""
    mode = FakeTensorMode()
    a, b, out = (mode.from_tensor(operand(term, 0)) for term in ("mk", "nk", "mn"))
    assert tilewright.einsum("mk,nk->mn", a, b, out=out) is out
    deep_gemm.bf16_gemm_nt(a, b, out)
    assert not any(one.launchers for one in host.plans.launchers.values())
    tilewright.einsum("mk,nk->mn", operand("mk", 0), operand("nk", 1), out=operand("mn", 2))
    assert any(one.launchers for one in host.plans.launchers.values())


@pytest.mark.parametrize("at", [0, 1, 2])
def test_under_vmap(host: Context, at: int) -> None:
    a, b = torch.randn(24, 16, 6).bfloat16().movedim(-1, at), operand("kn", 1)
    made = torch.vmap(lambda x: tilewright.einsum("mk,kn->nm", x, b), in_dims=at)(a)
    for actual, one in zip(made, a.unbind(at), strict=True):
        assert torch.equal(actual, tilewright.einsum("mk,kn->nm", one, b))


def test_the_type_is_that_of_a_product(host: Context) -> None:
    a, b = operand("bhr", 0, torch.int8), operand("hdr", 1, torch.int8)
    assert tilewright.einsum("bhr,hdr->bhd", a, b).dtype == torch.int32


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


def test_like_an_earlier_call_nothing_is_looked_at_again(
    host: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither letters nor views, while operands lie as before and numbers are floats; each call's count."""
    looked: list[str] = []
    lowered_call = contractions.lowered_call

    def look(equation: str, *operands: torch.Tensor, **options: object) -> contractions.LoweredCall:
        looked.append(equation)
        return lowered_call(equation, *operands, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(contractions, "lowered_call", look)
    equations = ("mk,nk->mn", "mk,nk->nm")  # in order, and with operands that change places
    for seed in range(3):
        for equation in equations:
            a, b, c = (operand(term, seed + i) for i, term in enumerate(terms(equation)))
            expected = torch.einsum(equation, a.double(), b.double())
            out = torch.full_like(c, float("nan"))
            for alpha, beta in ((1.0, 0.0), (0.5, 2.0 + seed)):
                assert tilewright.einsum(equation, a, b, out=out, c=c, alpha=alpha, beta=beta) is out
                torch.testing.assert_close(
                    out, (alpha * expected + beta * c.double()).bfloat16(), rtol=1.6e-2, atol=2e-2
                )
    assert looked == [one for one in equations for _ in range(2)]
    tilewright.einsum(equation, a, b, out=out, alpha=2)
    torch.testing.assert_close(out, (2 * expected).bfloat16(), rtol=1.6e-2, atol=2e-2)
    with pytest.raises(ArgumentError, match="gradient"):
        tilewright.einsum(equation, a.clone().requires_grad_(), b, out=out)
    with pytest.raises(ArgumentError, match="its shape"):
        tilewright.einsum(equation, a, b, out=out[:, 1:])
    with pytest.raises(ArgumentError, match="overlap"):
        tilewright.einsum(equation, out.view(-1)[: a.numel()].view(a.shape), b, out=out)


def test_factors_of_integers_are_checked_in_each_call(host: Context) -> None:
    """No launcher is kept that would take any factor."""
    a, b = torch.ones(16, 32, dtype=torch.int8), torch.ones(32, 32, dtype=torch.int8).t()
    out = torch.empty(16, 32, dtype=torch.int32)
    for alpha in (2.0, 3.0, 2.0):
        tilewright.einsum("mk,kn->mn", a, b, out=out, alpha=alpha)
        assert torch.equal(out, torch.full_like(out, 32 * int(alpha)))
    for _ in range(2):
        with pytest.raises(ArgumentError, match=r"alpha: expected an integer .*, got 0\.5"):
            tilewright.einsum("mk,kn->mn", a, b, out=out, alpha=0.5)
        with pytest.raises(ArgumentError, match=r"beta: expected an integer .*, got 0\.5"):
            tilewright.einsum("mk,kn->mn", a, b, out=out, c=out, beta=0.5)


@pytest.mark.parametrize("which", ["rows", "batch"])
@pytest.mark.parametrize("at", [0, 1])
def test_batches_whose_strides_tma_does_not_read_are_copied(all_hosts: Context, which: str, at: int) -> None:
    """Batches of bmk,bnk->mn can be added up where rows and matrices begin at multiples of 16 bytes."""
    equation, rows = "bmk,bnk->mn", EXTENTS["mn"[at]]
    given = [operand(term, seed) for seed, term in enumerate(terms(equation)[:2])]
    strides = (24 * rows + 2, 24, 1) if which == "batch" else (20 * rows, 20, 1)
    room = torch.zeros(6 * strides[0] + 40 * 24, dtype=torch.bfloat16)
    given[at] = room.as_strided(given[at].shape, strides).copy_(given[at])
    expected = torch.einsum(equation, *(one.double() for one in given))
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


@pytest.mark.parametrize("out_dtype", ["bfloat16", 6, torch.int32, torch.qint8, b"x"])
@pytest.mark.parametrize("equation", ["mk,nk->mn", "bhr,hdr->bhd"])
def test_types_that_no_product_has(host: Context, equation: str, out_dtype: Any) -> None:
    a, b = (operand(term, 0) for term in terms(equation)[:2])
    with pytest.raises(ArgumentError, match=r"out_dtype: (it is .*; expected .*|expected one of .*, got)"):
        tilewright.einsum(equation, a, b, out_dtype=out_dtype)


def test_dual_tensors_are_refused_in_warm_calls(host: Context) -> None:
    a, b, out = operand("mk", 0), operand("nk", 1), torch.empty(24, 40, dtype=torch.bfloat16)
    for call in (
        lambda x: tilewright.einsum("mk,nk->mn", x, b, out=out),
        lambda x: tilewright.einsum("mk,nk->nm", x, b, out=out.mT.contiguous()),
        lambda x: deep_gemm.bf16_gemm_nt(x, b, out),
    ):
        for _ in range(3):
            call(a)
        with forward_ad.dual_level():
            call(a)
            with pytest.raises(ArgumentError, match=r"^a[:,].* it is a dual tensor of forward-mode AD"):
                call(forward_ad.make_dual(a, torch.ones_like(a)))
