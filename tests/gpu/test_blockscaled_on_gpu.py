"""The block-scaled ops on a GPU: what does not depend on one kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import blockscaled_reference as reference
import pytest
import torch

import tilewright
from tilewright import reference as exact_reference
from tilewright.errors import ArgumentError, NoKernelError

pytestmark = pytest.mark.marks_kernels

ODD = [(1, 8, 16), (31, 256, 256), (127, 129, 136), (1000, 1000, 1000), (4097, 264, 72)]
SHAPES = [*ODD, (1, 128, 512), (128, 4096, 7168), (17, 33, 6), (4097, 136, 512), (64, 8, 4096)]


@pytest.mark.parametrize("pair", reference.PAIRS)
@pytest.mark.parametrize("shape", SHAPES, ids=reference.extents)
def test_any_shape(shape: tuple[int, int, int], pair: str) -> None:
    of = reference.of_pair(pair, shape)
    of.check(of.multiply_built())
    alpha = torch.full((1, 1), -2.375, device="cuda")
    of.check(of.multiply_built(alpha), alpha=float(alpha))


@pytest.mark.parametrize("pair", ["mxfp8"])
@pytest.mark.parametrize("shape", [(17, 33, 5), (3, 1, 1), (130, 67, 95)], ids=reference.extents)
def test_an_odd_k_of_fp8(shape: tuple[int, int, int], pair: str) -> None:
    of = reference.of_pair(pair, shape)
    of.check(of.multiply_built())


@pytest.mark.parametrize("d", reference.FLOATS)
@pytest.mark.parametrize("pair", reference.SAME)
@pytest.mark.parametrize("shape", [(31, 256, 256), (127, 129, 136), (200, 512, 4096)], ids=reference.extents)
def test_output_types(shape: tuple[int, int, int], pair: str, d: str) -> None:
    of = reference.of_pair(pair, shape)
    made = of.multiply_built(out_dtype=reference.FLOATS[d])
    assert made.dtype == reference.FLOATS[d]
    of.check(made)
    out = reference.Output(tuple(of.exact.shape), d)
    assert of.multiply_built(out_dtype=reference.FLOATS[d], out=out.view) is out.view
    assert reference.same_bits(out.view, made)
    out.check_borders()


@pytest.mark.parametrize("offset", [0, 1, 8])
@pytest.mark.parametrize("pitch", [129, 130, 136, 144])
@pytest.mark.parametrize("pair", reference.SAME)
def test_results_at_any_address_and_pitch(pair: str, pitch: int, offset: int) -> None:
    """Rows of odd lengths, side by side: what is written beyond one hits the next, or the border."""
    m, n = 33, 129
    of = reference.of_pair(pair, (m, n, 256))
    room = torch.full((offset + (m + 1) * pitch,), float("nan"), dtype=torch.bfloat16, device="cuda")
    out = room[offset : offset + m * pitch].view(m, pitch)[:, :n]
    assert of.multiply_built(out=out) is out
    of.check(out, f"pitch {pitch}, offset {offset}")
    assert int((~room.isnan()).sum()) == m * n


@pytest.mark.parametrize("n", [200, 129])
@pytest.mark.parametrize("pair", ["nvfp4", "mxfp8"])
@pytest.mark.parametrize("d", reference.FLOATS)
def test_beta_and_c(d: str, pair: str, n: int) -> None:
    m, k = 63, 328
    of = reference.of_pair(pair, (m, n, k))
    c = torch.randn(m, n, device="cuda").to(reference.FLOATS[d])
    alpha = torch.tensor(0.75, device="cuda")
    options: dict[str, Any] = {"alpha": alpha, "out_dtype": reference.FLOATS[d]}
    expected = {"alpha": 0.75, "c": c.clone(), "beta": -1.5}
    of.check(of.multiply_built(c=c, beta=-1.5, **options), "made", **expected)
    within = reference.embed(c, reference.POISON)
    of.check(of.multiply_built(c=within, beta=-1.5, **options), "within a wider tensor", **expected)
    assert of.multiply_built(c=c, beta=-1.5, out=c, **options) is c
    of.check(c, "in place", **expected)
    c.fill_(float("nan"))
    of.check(of.multiply_built(c=c, beta=0, **options), "beta 0", alpha=0.75)


@pytest.mark.parametrize("offset", [1, 8, 16])
def test_c_at_any_address(offset: int) -> None:
    of = reference.of_pair("nvfp4", (63, 200, 256))
    c = torch.randn(63 * 201 + offset, device="cuda").bfloat16()[offset:].view(63, 201)[:, :200]
    of.check(of.multiply_built(c=c, beta=-1.5), c=c, beta=-1.5)


def test_no_kernel_adds_c_to_other_formats() -> None:
    adding = {
        (record.config["a"], record.config["b"])
        for record in reference.routed()
        if record.config["c"] != "none"
    }
    others = [pair for pair, types in reference.PAIRS.items() if types not in adding]
    if not others:
        pytest.skip("some kernel of this GPU adds C to each pair of formats")
    c = torch.zeros(63, 200, device="cuda", dtype=torch.bfloat16)
    for pair in others:
        of = reference.of_pair(pair, (63, 200, 256))
        with pytest.raises(NoKernelError, match="it adds no C"):
            of.multiply(c=c, beta=1.0)


def _float4(data: torch.Tensor) -> torch.Tensor:
    return data.view(torch.float4_e2m1fn_x2) if data.dtype == torch.uint8 else data


# What an operand and its scales may be: functions of the data and of the scales, which the reference has as
# bytes (FP4) or their own FP8, and as two dimensions of their own FP8.
_Form: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
_FORMS: dict[str, tuple[_Form, _Form]] = {
    "bytes": (lambda data: data, lambda scales: scales.view(torch.uint8)),
    "flat bytes": (lambda data: data, lambda scales: scales.view(torch.uint8).flatten()),
    "flat": (lambda data: data, lambda scales: scales.flatten()),
    "rows of 16": (lambda data: data, lambda scales: scales.view(-1, 16)),
    "float4": (_float4, lambda scales: scales),
    "float4, flat bytes": (_float4, lambda scales: scales.view(torch.uint8).flatten()),
}


@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("pair", reference.PAIRS)
def test_every_form_of_operands(pair: str, form: str, batch: int) -> None:
    of = reference.of_pair(pair, (40, 136, 328), batch)
    data, scales = _FORMS[form]
    plain = of.multiply_built()
    of.check(plain)
    actual = of.multiply_built(
        a=data(of.a),
        b=data(of.b.mT.contiguous()).mT,
        a_descale=scales(of.a_scales),
        b_descale=scales(of.b_scales),
    )
    assert reference.same_bits(actual, plain)


def _within(tensor: torch.Tensor, pitch: int, offset: int) -> torch.Tensor:
    """A [rows, bytes] matrix again, its rows `pitch` bytes apart, the first at an address off by `offset`."""
    rows, columns = tensor.shape
    room = torch.full((offset + rows * pitch,), reference.OPERAND_POISON, dtype=torch.uint8, device="cuda")
    view = room[offset:].view(rows, pitch)[:, :columns]
    view.copy_(reference.as_bytes(tensor))
    return view.view(tensor.dtype)


@pytest.mark.parametrize("offset", [0, 1, 16, 24])
@pytest.mark.parametrize("wider", [0, 1, 16, 64])
@pytest.mark.parametrize("pair", reference.PAIRS)
def test_operands_at_any_address_and_pitch(pair: str, wider: int, offset: int) -> None:
    of = reference.of_pair(pair, (40, 136, 256))
    a = _within(of.a, of.a.shape[1] + wider, offset)
    b = _within(of.b.mT, of.b.shape[0] + wider, offset).mT
    of.check(of.multiply_built(a=a, b=b))
    of.check(of.multiply_built(a=a))
    of.check(of.multiply_built(b=b))


@pytest.mark.parametrize("offset", [1, 8, 16])
@pytest.mark.parametrize("pair", reference.SAME)
def test_scales_at_any_address(pair: str, offset: int) -> None:
    of = reference.of_pair(pair, (40, 136, 256))

    def moved(scales: torch.Tensor) -> torch.Tensor:
        room = torch.full((scales.numel() + offset,), 0x7F, dtype=torch.uint8, device="cuda")
        room[offset:] = scales.view(torch.uint8).flatten()
        return room[offset:].view(scales.dtype)

    of.check(of.multiply_built(a_descale=moved(of.a_scales), b_descale=moved(of.b_scales)))


def test_single_rows_and_columns_whatever_their_strides() -> None:
    of = reference.of_pair("nvfp4", (1, 1, 256))
    a = torch.empty_strided(of.a.shape, (3, 1), dtype=torch.uint8, device="cuda").copy_(of.a)
    b = torch.empty_strided(of.b.shape, (1, 5), dtype=torch.uint8, device="cuda").copy_(of.b)
    of.check(of.multiply_built(a=a, b=b))


@pytest.mark.parametrize("which", ["neither", "a", "b", "one of b", "b expanded"])
@pytest.mark.parametrize("pair", reference.PAIRS)
@pytest.mark.parametrize("k", [384, 328])
def test_batches(k: int, pair: str, which: str) -> None:
    names = reference.PAIRS[pair]
    full = reference.of_pair(pair, (144, 272, k), 3)
    a, b, a_scales, b_scales = full.call
    if which == "a":
        a, a_scales = a[0], reference.as_bytes(a_scales)[0].view(a_scales.dtype)
    elif which != "neither":
        first = reference.as_bytes(b_scales)[:1]
        b = {"b": b[0], "one of b": b[:1], "b expanded": b[:1].expand(3, -1, -1)}[which]
        b_scales = (first.repeat(3, 1, 1) if which == "b expanded" else first).view(b_scales.dtype)
    left = exact_reference.dequantize(a, a_scales, names[0])
    right = exact_reference.dequantize(b.mT, b_scales[0] if which == "b" else b_scales, names[1]).mT
    actual = full.multiply_built(a=a, b=b, a_descale=a_scales, b_descale=b_scales)
    assert actual.shape == (3, 144, 272)
    exact, magnitude = torch.matmul(left, right), torch.matmul(left.abs(), right.abs())
    reference.compare(actual, exact, magnitude, k, which)


def test_a_batch_that_lies_apart() -> None:
    """Gaps between matrices of A, the batch between D's rows and columns, one C for all."""
    of = reference.of_pair("nvfp4", (48, 136, 256), 3)
    a = reference.embed(of.a)[:, :48]
    room = torch.full((48, 3, 160), float("nan"), dtype=torch.bfloat16, device="cuda")
    out = room[..., :136].transpose(0, 1)
    assert of.multiply_built(a=a, out=out) is out
    of.check(out)
    assert bool(room[..., 136:].isnan().all())
    c = torch.randn(48, 136, device="cuda").bfloat16()
    of.check(of.multiply_built(a=a, c=c, beta=0.5), c=c, beta=0.5)


def test_empty_and_k_0() -> None:
    of = reference.of_pair("nvfp4", (40, 136, 256))
    none = torch.empty(0, 16, dtype=torch.uint8, device="cuda")
    assert tilewright.mm_nvfp4(of.a[:0], of.b, none, of.b_scales).shape == (0, 136)
    assert tilewright.mm_nvfp4(of.a, of.b[:, :0], of.a_scales, none).shape == (40, 0)
    out = torch.full((40, 136), math.nan, dtype=torch.bfloat16, device="cuda")
    tilewright.mm_nvfp4(of.a[:, :0], of.b[:0], none.view(-1), none.view(-1), out=out)
    assert bool(out.eq(0).all())
    c = torch.randn(40, 136, device="cuda").bfloat16()
    actual = tilewright.mm_nvfp4(of.a[:, :0], of.b[:0], none.view(-1), none.view(-1), c=c, beta=-1.0)
    assert torch.equal(actual, -c)


def test_operands_on_the_host() -> None:
    of = reference.of_pair("nvfp4", (64, 64, 256))
    of.multiply_built()
    bf16 = torch.zeros(64, 64, dtype=torch.bfloat16)
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("a", {"a": of.a.cpu()}),
        ("b", {"b": of.b.cpu()}),
        ("a_descale", {"a_descale": of.a_scales.cpu()}),
        ("b_descale", {"b_descale": of.b_scales.cpu()}),
        ("alpha", {"alpha": torch.ones(1)}),
        ("out", {"out": bf16}),
        ("c", {"c": bf16, "beta": 1.0}),
    ]
    for argument, change in wrong:
        with pytest.raises(ArgumentError, match="on cpu") as caught:
            of.multiply(**change)
        assert caught.value.argument == argument
    of.check(of.multiply())


def test_wrong_arguments() -> None:
    of = reference.of_pair("nvfp4", (64, 64, 256))
    of.multiply_built()
    bf16 = torch.zeros(64, 64, dtype=torch.bfloat16, device="cuda")
    name = reference.some_kernel("nvfp4").name
    wrong: list[tuple[str, str, dict[str, Any]]] = [
        ("alpha", "one number", {"alpha": torch.ones(2, device="cuda")}),
        ("alpha", "expected float32", {"alpha": torch.ones(1, device="cuda").double()}),
        ("a", "its dtype is", {"a": of.a.to(torch.bfloat16)}),
        ("b", "contiguous columns", {"b": of.b.contiguous()}),
        ("b", "its shape is", {"b": of.b[:100]}),
        ("out", "its shape is", {"out": bf16[:8]}),
        ("out", "its dtype is", {"out": bf16.float()}),
        ("out", "overlaps a", {"out": of.a.view(torch.bfloat16)}),
        ("c", "it is None", {"beta": 1.0}),
        ("out_dtype", "expected", {"out_dtype": torch.int8}),
        ("tactic", r"splits k over a cluster|only stream-K", {"tactic": f"{name}@splits=3"}),
        ("tactic", r"side of more than 4|compiled in", {"tactic": f"{name}@cluster=8x1"}),
    ]
    for argument, message, change in wrong:
        with pytest.raises(ArgumentError, match=message) as caught:
            of.multiply(**change)
        assert caught.value.argument == argument
    with pytest.raises(NoKernelError, match="no table lists"):
        of.multiply(tactic="blockscaled_gemm_no_such_kernel")
    torch.cuda.synchronize()  # nothing wrong has reached the GPU
    of.check(of.multiply())


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two GPUs here")
def test_a_device_that_is_not_the_current_one() -> None:
    of = reference.of_pair("nvfp4", (256, 512, 1024))
    a, b, a_scales, b_scales = (tensor.to("cuda:1") for tensor in of.call)
    actual = of.multiply_built(a=a, b=b, a_descale=a_scales, b_descale=b_scales)
    assert actual.device == torch.device("cuda:1")
    of.check(actual.to("cuda:0"))
    with pytest.raises(ArgumentError, match="on cuda:0, a on cuda:1"):
        of.multiply(a=a, b=b, a_descale=a_scales)
