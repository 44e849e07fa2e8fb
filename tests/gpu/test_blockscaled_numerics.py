"""What block-scaled results are worth on a GPU: mistakes that are caught, padding, NaN, extreme scales."""

from __future__ import annotations

import blockscaled_reference as reference
import pytest
import torch

from tilewright import reference as exact_reference
from tilewright import scale_factors
from tilewright.errors import ArgumentError, NoKernelError
from tilewright.families.blockscaled_gemm.mainloops import is_hopper
from tilewright.families.blockscaled_gemm.problem import BLOCK

pytestmark = pytest.mark.marks_kernels


def test_a_wrong_alpha_is_caught() -> None:
    """By the norm; a cosine does not see it."""
    of = reference.of_pair("nvfp4", (128, 512, 1024))
    actual = of.multiply_built(torch.full((1,), 1.02, device="cuda"))
    result = exact_reference.compare(actual, of.exact, of.magnitude)
    assert result.cosine > 0.9999
    assert not result.passes()
    assert abs(result.norm_ratio - 1.02) < 1e-3
    with pytest.raises(AssertionError, match=r"norm ratio 1\.0[12]"):
        of.check(actual)


@pytest.mark.parametrize("pair", reference.SAME)
def test_swapped_scales_are_caught(pair: str) -> None:
    of = reference.of_pair(pair, (128, 128, 1024))
    with pytest.raises(AssertionError, match="norm ratio"):
        of.check(of.multiply_built(a_descale=of.b_scales, b_descale=of.a_scales))


@pytest.mark.parametrize("pair", reference.SAME)
def test_scales_that_were_not_laid_out_are_caught(pair: str) -> None:
    """A plain row-major buffer has the right size for these extents, so only the result shows the fault."""
    shape = m, _, k = (128, 128, 1024)
    of, block = reference.of_pair(pair, shape), BLOCK[pair]
    plain = scale_factors.unswizzle(of.a_scales, m, k, block)
    assert plain.numel() == of.a_scales.numel()
    with pytest.raises(AssertionError, match="norm ratio"):
        of.check(of.multiply_built(a_descale=plain))


@pytest.mark.parametrize("pair", reference.SAME)
@pytest.mark.parametrize("which", ["a_descale", "b_descale"])
def test_unpadded_scales_are_refused(which: str, pair: str) -> None:
    shape = m, n, k = (31, 200, 320)
    of, block = reference.of_pair(pair, shape), BLOCK[pair]
    rows, scales = (m, of.a_scales) if which == "a_descale" else (n, of.b_scales)
    plain = scale_factors.unswizzle(scales, rows, k, block)
    padded = "128" if rows == m else "256"
    for wrong in (plain, plain.flatten(), scales.view(-1)[:-4], scales.view(-1)[: scales.numel() // 2]):
        with pytest.raises(ArgumentError, match=rf"as of \[{padded}, \d+\]") as caught:
            of.multiply(**{which: wrong})
        assert caught.value.argument == which
    of.multiply_built()
    with pytest.raises(ArgumentError, match="expected"):  # of a call that is remembered
        of.multiply(**{which: plain})


@pytest.mark.parametrize("k", [320, 328])
@pytest.mark.parametrize("byte", [0x7F, 0xFF, 0x38])
@pytest.mark.parametrize("pair", reference.SAME)
def test_padding_of_rows_is_not_read_into_results(pair: str, byte: int, k: int) -> None:
    """Callers owe zeros; where they are not, rows and columns of D that exist are the same all the same."""
    of = reference.of_pair(pair, (33, 200, k))
    scales = {
        "a_descale": reference.fill_padding(of.a_scales, (33, k), BLOCK[pair], "rows", byte),
        "b_descale": reference.fill_padding(of.b_scales, (200, k), BLOCK[pair], "rows", byte),
    }
    for tactic in reference.cutting_tactics(pair) if k % 32 == 0 else [None]:
        plain = of.multiply_built(tactic=tactic)
        assert reference.same_bits(of.multiply(tactic=tactic, **scales), plain), tactic


@pytest.mark.parametrize("k", [320, 352, 328])
@pytest.mark.parametrize("byte", [0x7F, 0xFF, 0x38])
@pytest.mark.parametrize("pair", reference.SAME)
def test_padding_of_columns_makes_no_wrong_number(pair: str, byte: int, k: int) -> None:
    """It meets elements that are zero: Hopper's kernels leave it out. Blackwell's tensor cores read it: a NaN
    there is NaN in D, which shows, in the rows and columns whose padding it is; anything else is nothing."""
    block = BLOCK[pair]
    of = reference.of_pair(pair, (33, 200, k))
    reads = not is_hopper(reference.some_kernel(pair)) and (byte == 0xFF or (byte == 0x7F and block == 16))
    rows, columns = ([5, 32], [0, 130]) if reads else (range(33), range(200))
    scales = {
        "a_descale": reference.fill_padding(of.a_scales, (33, k), block, "columns", byte, rows),
        "b_descale": reference.fill_padding(of.b_scales, (200, k), block, "columns", byte, columns),
    }
    for tactic in reference.cutting_tactics(pair) if k % 32 == 0 else [None]:
        plain = of.multiply_built(tactic=tactic)
        actual = of.multiply(tactic=tactic, **scales)
        seen = reference.excuse_nan(actual, plain, rows, columns) if reads else actual
        assert reference.same_bits(seen, plain), tactic


@pytest.mark.parametrize("d", reference.FLOATS)
@pytest.mark.parametrize("pair", reference.SAME)
def test_nan_goes_where_it_must(pair: str, d: str) -> None:
    shape = m, n, k = (37, 136, 640)
    of, block = reference.of_pair(pair, shape), BLOCK[pair]
    a, a_scales, b_scales = of.a.clone(), of.a_scales.clone(), of.b_scales.clone()
    nan = 0x7F if pair == "nvfp4" else 0xFF
    a_scales.view(torch.uint8).view(-1)[scale_factors.index(5, 7, k, block)] = nan
    b_scales.view(torch.uint8).view(-1)[scale_factors.index(130, 0, k, block)] = nan
    count = 1
    if pair == "mxfp8":
        a.view(torch.uint8)[20, 639] = 0x7F
        a.view(torch.uint8)[36, 0] = 0xFF
        count = 3
    made = reference.known(pair, pair, a, of.b, a_scales, b_scales, k)
    assert int(made.exact.isnan().sum()) == count * n + m - count
    made.check(made.multiply_built(out_dtype=reference.FLOATS[d]))


def test_overflow_is_infinite_and_zero_scales_are_zero() -> None:
    of = reference.of_pair("nvfp4", (40, 136, 256))
    actual = of.multiply_built(torch.full((1,), 2.0**30, device="cuda"), out_dtype=torch.float16)
    exact, magnitude = of.wanted(2.0**30)
    assert bool(actual.isinf().any())
    finite_or_not = exact_reference.compare(actual, exact, magnitude)
    assert finite_or_not.worst <= 1, str(finite_or_not)
    zero = torch.zeros_like(of.a_scales.view(torch.uint8)).view(of.a_scales.dtype)
    assert bool(of.multiply_built(a_descale=zero).eq(0).all())


def _constant(scales: torch.Tensor, byte: int) -> torch.Tensor:
    """UE8M0 scales that are all the same."""
    return torch.full_like(scales.view(torch.uint8), byte).view(scales.dtype)


@pytest.mark.parametrize("exponent", [0, 1, 60, 112, -112])
@pytest.mark.parametrize("pair", ["mxfp4", "mxfp8"])
def test_scales_within_the_documented_range_are_exact(pair: str, exponent: int) -> None:
    """2^-112 to 2^112: scales that cancel leave no trace, to the last bit."""
    of = reference.of_pair(pair, (40, 136, 256))
    ones = {name: _constant(of.a_scales, 127) for name in ("a_descale",)}
    ones["b_descale"] = _constant(of.b_scales, 127)
    plain = of.multiply_built(out_dtype=torch.float32, **ones)
    actual = of.multiply_built(
        out_dtype=torch.float32,
        a_descale=_constant(of.a_scales, 127 + exponent),
        b_descale=_constant(of.b_scales, 127 - exponent),
    )
    assert reference.same_bits(actual, plain)
    made = reference.known(pair, pair, of.a, of.b, ones["a_descale"], ones["b_descale"], 256)
    made.check(plain)


def _small_elements(of: reference.Operands, largest: int) -> torch.Tensor:
    """A's E2M1 data with magnitudes of codes up to `largest` (1: 0.5, 2: 1, 3: 1.5)."""
    codes = exact_reference.unpack_e2m1(of.a)
    return exact_reference.pack_e2m1((codes & 8) | (codes & 7).clamp(max=largest))


@pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0),
    reason="where elements are decoded to BF16",
)
def test_scales_beyond_the_range_of_bf16_on_hopper() -> None:
    """As documented: an element times its scale beyond BF16 is infinite, whatever the other scale is; up to
    there it is exact, and below 2^-133 rounded."""
    of = reference.of_pair("mxfp4", (40, 136, 256))
    high, low = 254, 0  # 2^127 and 2^-127
    for a_byte, b_byte in ((high, low), (low, high)):
        scales = (_constant(of.a_scales, a_byte), _constant(of.b_scales, b_byte))
        a, b = of.a, of.b
        small = _small_elements(of, 3)  # 1.5 * 2^127 is finite, 2 * 2^127 is not
        if a_byte == high:
            a = small
        else:
            b = exact_reference.pack_e2m1(
                (exact_reference.unpack_e2m1(of.b.mT) & 8)
                | (exact_reference.unpack_e2m1(of.b.mT) & 7).clamp(max=3)
            ).mT
        made = reference.known("mxfp4", "mxfp4", a, b, *scales, 256)
        made.check(made.multiply_built(out_dtype=torch.float32), f"2^{a_byte - 127} and 2^{b_byte - 127}")
        actual = of.multiply_built(a_descale=scales[0], b_descale=scales[1], out_dtype=torch.float32)
        assert not bool(actual.isfinite().any())
    fp8 = reference.of_pair("mxfp8", (40, 136, 256))
    a = torch.full_like(fp8.a.view(torch.uint8), 0x01).view(fp8.a.dtype)  # 2^-9, the smallest
    lost = fp8.multiply_built(
        a=a, a_descale=_constant(fp8.a_scales, low), b_descale=_constant(fp8.b_scales, 127),
        out_dtype=torch.float32,
    )  # fmt: skip
    assert bool(lost.eq(0).all())  # 2^-136


def test_e5m2() -> None:
    """Computed where a table has a kernel for it, and refused where none has: never taken for E4M3."""
    of = reference.of_pair("mxfp8", (40, 136, 256))
    e5m2 = exact_reference.quantize(torch.randn(40, 256, device="cuda"), "mxfp8_e5m2")
    made = reference.known("mxfp8_e5m2", "mxfp8", e5m2[0], of.b, e5m2[1], of.b_scales, 256)
    if any(record.config["a"] == "mxfp8_e5m2" for record in reference.routed()):
        made.check(made.multiply_built())
        return
    with pytest.raises(NoKernelError, match="its a is mxfp8, not mxfp8_e5m2"):
        made.multiply()
