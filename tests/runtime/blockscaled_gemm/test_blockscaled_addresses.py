"""Addresses and padding of block-scaled operands: what kernels take, and what is copied for them."""

from __future__ import annotations

import logging

import pytest
import torch
from blockscaled_op_calls import A_SCALES, B_SCALES, CALL, EXACT, QUANTISED, A, B, scales, shifted, used
from blockscaled_operands import close, operand, product

import tilewright
from tilewright import reference, scale_factors
from tilewright.context import Context
from tilewright.errors import ArgumentError
from tilewright.families.blockscaled_gemm.cost_tcgen05 import Tcgen05
from tilewright.formats.dtypes import as_bytes


@pytest.mark.parametrize("which", ["a", "b", "a_descale", "b_descale", "c", "out", "out_descale"])
def test_addresses_that_no_kernel_takes(blackwell: Context, which: str) -> None:
    quantised = which == "out_descale"
    tensors = {"a": A, "b": B.mT, "a_descale": A_SCALES, "b_descale": B_SCALES}
    if quantised:
        tensors |= {"out_descale": scales(128, 4), "out": torch.zeros(16, 16, dtype=torch.uint8)}
    else:
        tensors |= {"c": torch.randn(16, 32).bfloat16(), "out": torch.zeros(16, 32).bfloat16()}
    for mixed in ((), (which,)):  # the plan for aligned addresses is made first, and is in use
        call = {name: shifted(x, 2) if name in mixed else x for name, x in tensors.items()}
        call["b"] = call["b"].mT
        if quantised:
            d, actual = tilewright.mm_nvfp4(**call, **QUANTISED)
            assert actual is call["out_descale"]
            assert torch.equal(
                actual.view(torch.uint8), reference.quantize(EXACT.float(), "nvfp4")[1].view(torch.uint8)
            )
        else:
            d = tilewright.mm_nvfp4(**call, beta=1.0)
            close(d, EXACT + call["c"].double())
        assert d is call["out"]


@pytest.mark.parametrize("batch", [(), (2,)])
def test_padding_of_scales_is_not_read_where_k_is_padded(blackwell: Context, batch: tuple[int, ...]) -> None:
    """k of 328 is padded to 352, a block more: NaN in the padding of its scales would meet the zeros."""
    m, n, k = 33, 40, 328
    a, a_scales = operand(m, k, "nvfp4", batch)
    b, b_scales = operand(n, k, "nvfp4")
    expected = tilewright.mm_nvfp4(a, b.mT, a_scales, b_scales)
    spoilt = []
    for own, rows in ((a_scales, m), (b_scales, n)):
        plain = scale_factors.unswizzle(as_bytes(own), rows, k, 16)
        columns = scale_factors.padded_shape(rows, k, 16)[1]
        wide = torch.full((*plain.shape[:-1], columns), 0x7F, dtype=torch.uint8)
        wide[..., : plain.shape[-1]] = plain
        spoilt.append(scale_factors.swizzle(wide).view(own.dtype))
    actual = tilewright.mm_nvfp4(a, b.mT, *spoilt)
    assert not bool(actual.isnan().any())
    assert torch.equal(actual, expected)


ULTRA = "host_nvfp4_ultra"


def test_a_d_that_the_ultra_kernels_cannot_write(
    blackwell: Context, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others take over where D does not lie at multiples of 32 bytes; nothing is copied."""
    only = {ULTRA, "host_nvfp4"}
    monkeypatch.setattr(blackwell.registry, "is_built", lambda record: record.name in only)
    caplog.set_level(logging.DEBUG, "tilewright")
    call, exact = product(256, 256, 768)

    def kernel(out: torch.Tensor, n: int = 256) -> set[str]:
        blackwell.plans.clear()
        blackwell.forget_tuned()  # and what was chosen
        caplog.clear()
        close(tilewright.mm_nvfp4(call[0], call[1][:, :n], *call[2:], out=out), exact[:, :n])
        assert "copies" not in caplog.text
        return used(blackwell)

    out = torch.zeros(256, 256).bfloat16()
    monkeypatch.setattr(tilewright.selection.choice, "BUILT_WITHIN", 0.0)
    monkeypatch.setattr(Tcgen05, "ULTRA_SECONDS", -2e-6)  # else no ultra kernel is worth so little work
    assert ULTRA in kernel(out)
    # The same plan's next call finds an address of 16 bytes.
    close(tilewright.mm_nvfp4(*call, out=shifted(out, 16)), exact)
    assert used(blackwell) == only
    assert "d's rows begin at multiples of 8 elements" in caplog.text
    # And then one of two bytes, for which D is copied.
    close(tilewright.mm_nvfp4(*call, out=shifted(out, 2)), exact)
    assert "copies out," in caplog.text
    wide = torch.zeros(256, 264).bfloat16()
    assert kernel(wide[:, :256]) == {"host_nvfp4"}
    assert "d's rows begin at multiples of 8 elements" in caplog.text
    with pytest.raises(ArgumentError, match=r"tactic: host_nvfp4_ultra .*d's rows begin at multiples of 8"):
        tilewright.mm_nvfp4(*call, out=wide[:, :256], tactic=ULTRA)


def test_fp4_beside_fp8_at_multiples_of_16_bytes(
    blackwell: Context, caplog: pytest.LogCaptureFixture
) -> None:
    """TMA unpacks 4-bit elements from multiples of 32 bytes alone; the binding asks for 16."""
    call, exact = product(16, 32, 128, "mxfp8", "mxfp4")
    close(tilewright.mm_mxfp8_mxfp4(*call), exact)
    call[1] = shifted(call[1].mT, 16).mT
    close(tilewright.mm_mxfp8_mxfp4(*call), exact)
    assert "copies b," in caplog.text


def test_copies_are_said_in_the_log(blackwell: Context, caplog: pytest.LogCaptureFixture) -> None:
    for shape, said in (
        ((16, 32, 64), ""),
        ((16, 32, 66), "copies a, b,"),
        ((16, 30, 64), "copies b, out,"),
        ((16, 30, 66), "copies a, b, out,"),
    ):
        caplog.clear()
        call, exact = product(*shape)
        close(tilewright.mm_nvfp4(*call), exact)
        assert said in caplog.text
        assert bool(said) == bool(caplog.text)
    caplog.clear()
    rows = torch.zeros(16, 80, dtype=torch.uint8)
    rows[:, :32] = A  # a leading dimension of 160 elements does, one of 164 does not
    close(tilewright.mm_nvfp4(rows[:, :32], *CALL[1:]), EXACT)
    assert not caplog.text
    wider = torch.zeros(16, 82, dtype=torch.uint8)
    wider[:, :32] = A
    close(tilewright.mm_nvfp4(wider[:, :32], *CALL[1:]), EXACT)
    assert "copies a," in caplog.text
