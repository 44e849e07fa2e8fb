"""`tilewright.gemm` on a GPU: what does not depend on one kernel."""

from __future__ import annotations

from typing import Any

import gemm_reference as reference
import pytest
import torch
from gemm_products import BF16, column_major, compare, gemm

import tilewright
from tilewright.errors import AlignmentError, ArgumentError, NoKernelError, TilewrightError

ODD = [(1, 8, 16), (31, 256, 256), (127, 129, 136), (1000, 1000, 1000), (4097, 264, 72), (17, 33, 5)]
pytestmark = pytest.mark.marks_kernels


@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "tf32"])
@pytest.mark.parametrize("shape", ODD)
def test_any_shape_of_16_bits_and_tf32(shape: tuple[int, int, int], dtype: str, layout: str) -> None:
    a, b, product = reference.operands(dtype, dtype, shape)
    a = a if layout[0] == "t" else column_major(a)
    b = b if layout[1] == "t" else column_major(b)
    d = "f32" if dtype == "tf32" else dtype
    compare(gemm(a, b), product, (dtype, d), shape[2])
    c = reference.random(shape[:2], d, seed=5)
    actual = gemm(a, b, c=c, beta=0.5, alpha=-2.0)
    compare(actual, -2.0 * product + 0.5 * c.double(), (dtype, d), shape[2])


def test_general_float32_is_computed_as_tf32() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(512, 1024, device="cuda"), column_major(torch.randn(1024, 512, device="cuda"))
    expected = a.double() @ b.double()
    error = (gemm(a, b).double() - expected).norm() / expected.norm()
    assert error < 2e-3


@pytest.mark.parametrize("pair", [("e4m3", "e4m3"), ("e5m2", "e4m3"), ("s8", "s8")])
@pytest.mark.parametrize("shape", [(1, 16, 32), (31, 256, 256), (1000, 1008, 1008), (4097, 272, 80)])
def test_8_bits(shape: tuple[int, int, int], pair: tuple[str, str]) -> None:
    a, b, product = reference.operands(*pair, shape)
    d = "s32" if pair[0] == "s8" else "bf16"
    compare(gemm(a, column_major(b)), product, (pair[0], d), shape[2])


@pytest.mark.parametrize(
    ("shape", "dtype"), [((32, 32, 24), "e4m3"), ((32, 32, 24), "s8"), ((32, 18, 32), "s8")]
)
def test_8_bit_operands_that_tma_excludes(shape: tuple[int, int, int], dtype: str) -> None:
    a, b, _ = reference.operands(dtype, dtype, shape)
    with pytest.raises(AlignmentError):
        tilewright.gemm(a, column_major(b))
    with pytest.raises(AlignmentError, match="no contiguous columns"):
        tilewright.gemm(reference.random((32, 32), dtype, 1), reference.random((32, 32), dtype, 1))


@pytest.mark.parametrize("d", ["bf16", "e4m3"])
@pytest.mark.parametrize("shape", [(32, 18, 24), (1, 1, 1), (127, 129, 136), (1000, 1001, 1016)])
def test_fp8_of_any_extents(shape: tuple[int, int, int], d: str) -> None:
    """Rows of the operands begin at multiples of 16 bytes; those of the result do not."""
    a, b, product = reference.operands("e4m3", "e5m2", shape)
    a, b = reference.embed(a), reference.embed(b, row_major=False)
    compare(gemm(a, b, out_dtype=reference.DTYPES[d]), product, ("e4m3", d), shape[2])


@pytest.mark.parametrize("shape", [(127, 129, 136), (4097, 264, 72), (1000, 1001, 1016)])
@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
def test_odd_extents_are_not_copied(
    shape: tuple[int, int, int], layout: str, caplog: pytest.LogCaptureFixture
) -> None:
    a, b, product = reference.operands("bf16", "bf16", shape)
    a, b = reference.embed(a, row_major=layout[0] == "t"), reference.embed(b, row_major=layout[1] == "t")
    with caplog.at_level("WARNING", "tilewright"):
        compare(gemm(a, b), product, BF16, shape[2])
    assert not caplog.records


def test_scales_are_read_when_the_kernel_runs() -> None:
    a, b, product = reference.operands("e4m3", "e4m3", (256, 512, 1024))
    b = column_major(b)
    scale_a, scale_b = torch.full((1,), 0.25, device="cuda"), torch.full((1, 1), 3.0, device="cuda")
    compare(gemm(a, b, scale_a=scale_a, scale_b=scale_b), 0.75 * product, ("e4m3", "bf16"), 1024)
    scale_a.fill_(2.0)
    compare(gemm(a, b, scale_a=scale_a, scale_b=scale_b), 6.0 * product, ("e4m3", "bf16"), 1024)
    bad = torch.ones(1, dtype=torch.float64, device="cuda")
    with pytest.raises(ArgumentError, match=r"scale_b: its dtype is torch\.float64"):
        tilewright.gemm(a, b, scale_b=bad)


@pytest.mark.parametrize("which", ["a", "b", "both", "expanded"])
def test_broadcast_over_a_batch(which: str) -> None:
    a, b, _ = reference.operands("bf16", "bf16", (144, 272, 336), batch=3)
    a, b = a[0] if which in ("a", "both") else a, b[:1] if which != "a" else b
    if which == "expanded":
        b = b.expand(3, -1, -1)
    actual = gemm(a, b)
    expected = torch.matmul(a.double(), b.double())
    assert actual.shape == expected.shape
    compare(actual, expected, BF16, 336)


def test_results_with_the_batch_between_rows_and_columns() -> None:
    a, b, product = reference.operands("bf16", "bf16", (144, 272, 336), batch=3)
    between = torch.empty(144, 3, 336, device="cuda", dtype=torch.bfloat16).transpose(0, 1).copy_(a)
    room = reference.poison((144, 3, 2 * 272), torch.bfloat16)
    packed = reference.poison((144, 3, 272), torch.bfloat16)
    for out in (packed.transpose(0, 1), room[..., :272].transpose(0, 1)):
        for right in (b, column_major(b)):
            out.fill_(float("nan"))
            assert gemm(between, right, out=out) is out
            compare(out, product, BF16, 336)
    assert bool(room[..., 272:].isnan().all())


def test_operands_beside_the_result() -> None:
    a, b, product = reference.operands("bf16", "bf16", (64, 128, 256))
    room = reference.poison((64, 256 + 128), torch.bfloat16)
    left, out = room.split((256, 128), dim=1)
    left.copy_(a)
    gemm(left, column_major(b), out=out)
    compare(out, product, BF16, 256)
    assert torch.equal(left, a)
    scale = room[3, 300:302].view(torch.float32)
    with pytest.raises(ArgumentError, match="out: it overlaps scale_b"):
        tilewright.gemm(left, column_major(b), out=out, scale_b=scale)


def test_addresses_off_by_one_element() -> None:
    a, b, product = reference.operands("bf16", "bf16", (64, 128, 256))
    for offset in (0, 1, 4):
        room = torch.empty(64 * 256 + 8, device="cuda", dtype=torch.bfloat16)
        shifted = room[offset : offset + 64 * 256].view(64, 256).copy_(a)
        out_room = torch.zeros(64 * 128 + 8, device="cuda", dtype=torch.bfloat16)
        out = out_room[offset : offset + 64 * 128].view(64, 128)
        assert gemm(shifted, b, out=out) is out
        compare(out, product, BF16, 256, f"offset {offset}")


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two GPUs here")
def test_a_device_that_is_not_the_current_one() -> None:
    a, b, product = reference.operands("bf16", "bf16", (256, 512, 1024))
    actual = gemm(a.to("cuda:1"), b.to("cuda:1"))
    assert actual.device == torch.device("cuda:1")
    compare(actual.to("cuda:0"), product, BF16, 1024)


def test_empty_and_k_0() -> None:
    empty = torch.empty(0, 64, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(64, 32, device="cuda").bfloat16()
    assert tilewright.gemm(empty, weight).shape == (0, 32)
    assert tilewright.gemm(weight.t(), empty.t()).shape == (32, 0)
    out = torch.full((64, 32), float("nan"), device="cuda", dtype=torch.bfloat16)
    tilewright.gemm(weight[:, :0], weight[:0], out=out, c=weight, beta=-1.0)
    assert torch.equal(out, -weight)
    assert tilewright.gemm(weight[:, :0], weight[:0]).eq(0).all()


def test_wrong_arguments() -> None:
    a, b = torch.randn(64, 64, device="cuda").bfloat16(), torch.randn(64, 64, device="cuda").bfloat16()
    gemm(a, b)
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("a: it is on cpu", {"a": a.cpu()}),
        ("b: it is on cpu", {"b": b.cpu()}),
        ("out: it is on cpu", {"out": torch.empty_like(a.cpu())}),
        ("out: it overlaps a", {"out": a}),
        ("out: it overlaps b", {"out": b}),
        ("b: a is torch.bfloat16 and b is torch.float16", {"b": b.half()}),
        ("a: its dtype is torch.float64", {"a": a.double()}),
        ("b: its shape is", {"b": b[:60]}),
        ("out: its shape is", {"out": torch.empty_like(a[:8])}),
        ("c: it is None", {"beta": 1.0}),
        ("no_grad", {"a": a.clone().requires_grad_()}),
    ]
    for message, change in wrong:
        call = {"a": a, "b": b, **change}
        with pytest.raises(TilewrightError, match=message):
            tilewright.gemm(call.pop("a"), call.pop("b"), **call)
    with pytest.raises((NoKernelError, ArgumentError)):
        tilewright.gemm(a, b, tactic="gemm_no_such_kernel")
    torch.cuda.synchronize()  # nothing wrong has reached the GPU
