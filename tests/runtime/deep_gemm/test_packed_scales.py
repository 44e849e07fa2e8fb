"""DeepGEMM's functions with packed scales, with scales of 32 of k, and with FP4: which kernel they choose on
SM120, and which factor each element has in the call that reaches it. No GPU here multiplies by such scales.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

import tilewright
from tilewright import blockwise_scales
from tilewright.calls import fast_path
from tilewright.compat import deep_gemm
from tilewright.compat.deep_gemm import block_scaled
from tilewright.context import Context
from tilewright.errors import ArgumentError, NotBuiltError

BIAS = 127  # of a UE8M0 exponent
Pair = tuple[torch.Tensor, torch.Tensor]


def codes(*shape: int, seed: int) -> torch.Tensor:
    return torch.randint(BIAS - 8, BIAS + 8, shape, generator=torch.Generator().manual_seed(seed))


def values(exponents: torch.Tensor) -> torch.Tensor:
    return torch.ldexp(torch.ones(exponents.shape), exponents - BIAS)


class Operand(NamedTuple):
    """FP8 data, packed scales of it, and the factor of each element."""

    data: torch.Tensor
    words: torch.Tensor
    factors: torch.Tensor

    @property
    def pair(self) -> Pair:
        return self.data, self.words


def operand(*shape: int, block: int, seed: int = 0) -> Operand:
    *rows, k = shape
    exponents = codes(*rows, -(-k // block), seed=seed)
    factors = values(exponents).repeat_interleave(block, -1)[..., :k]
    return Operand(
        torch.zeros(shape, dtype=torch.float8_e4m3fn),
        blockwise_scales.pack(exponents.to(torch.uint8)),
        factors,
    )


def factors(scales: torch.Tensor, block: int, k: int) -> torch.Tensor:
    """The factor of each element of [..., rows, k], by packed scales as a kernel reads them."""
    assert blockwise_scales.lies_m_major(scales)
    exponents = blockwise_scales.unpack(scales, -(-k // block)).view(torch.uint8).int()
    return values(exponents).repeat_interleave(block, -1)[..., :k]


class Call:
    """The arguments of an op's last call."""

    def __init__(self) -> None:
        self.positional: tuple[Any, ...] = ()
        self.named: dict[str, Any] = {}

    def __call__(self, *positional: Any, **named: Any) -> None:
        self.positional, self.named = positional, named

    def factors(self, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Those of A [..., m, k] and of B [..., n, k]."""
        rows, columns = self.positional[-2:]
        block = self.named["scale_block"]
        return factors(rows, block, k), factors(columns.mT, block, k)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Call:
    call = Call()
    for name in ("scaled_gemm", "grouped_gemm_contiguous", "grouped_gemm_masked", "grouped_gemm_k"):
        monkeypatch.setattr(tilewright, name, call)
    monkeypatch.setattr(fast_path, "keep", lambda *_, **__: None)  # nothing is launched
    # As on GPUs of 12.x: host kernels that lay scales out count as Hopper's.
    monkeypatch.setattr(block_scaled, "needed", lambda *_, **__: False)
    return call


def bf16(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16)


M, N, K = 128, 256, 1152  # the last word of 128 of k holds one exponent
GROUPS = torch.tensor([128, 256], dtype=torch.int32)
SIZES = torch.tensor([128, 640, 0, 384], dtype=torch.int32)  # of k


def dense(block: int) -> None:
    a, b = operand(M, K, block=block), operand(N, K, block=block, seed=1)
    deep_gemm.fp8_gemm_nt(a.pair, b.pair, bf16(M, N), recipe=(1, 1, block))


def dense_f32(block: int) -> None:
    a, b = operand(M, K, block=block), operand(N, K, block=block, seed=1)
    d = torch.zeros(M, N)
    deep_gemm.fp8_fp4_gemm_nt(a.pair, b.pair, d, d, recipe_a=(1, block), recipe_b=(1, block))


def heads(block: int) -> None:
    a, b = operand(M, K, block=block), operand(N, K, block=block, seed=1)
    deep_gemm.fp8_gemm_nt_skip_head_mid(a.pair, b.pair, bf16(M, 384), (64, 64, 64), recipe=(1, 1, block))


def contiguous(block: int) -> None:
    a, b = operand(M, K, block=block), operand(2, N, K, block=block, seed=1)
    rows = torch.zeros(M, dtype=torch.int32)
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a.pair, b.pair, bf16(M, N), rows, recipe=(1, 1, block))


def psum(block: int) -> None:
    a, b = operand(256, K, block=block), operand(2, N, K, block=block, seed=1)
    deep_gemm.m_grouped_fp8_fp4_gemm_nt_contiguous(
        a.pair, b.pair, bf16(256, N), GROUPS, recipe_a=(1, block), recipe_b=(1, block), use_psum_layout=True,
        expected_m_for_psum_layout=100,
    )  # fmt: skip


def masked(block: int) -> None:
    a, b = operand(2, M, K, block=block), operand(2, N, K, block=block, seed=1)
    d = bf16(2, M, N)
    deep_gemm.m_grouped_fp8_gemm_nt_masked(a.pair, b.pair, d, GROUPS, 64, recipe=(1, 1, block))


def bhr_hdr(block: int) -> None:
    a, b = operand(2, M, K, block=block), operand(2, N, K, block=block, seed=1)
    by_head = a.data.transpose(0, 1), a.words.transpose(0, 1)
    deep_gemm.fp8_einsum("bhr,hdr->bhd", by_head, b.pair, bf16(M, 2, N), recipe=(1, 1, block))


CALLS: dict[str, Callable[[int], None]] = {
    "grouping none": dense,
    "grouping none, f32": dense_f32,
    "heads": heads,
    "row index": contiguous,
    "ends": psum,
    "rows valid": masked,
    "bhr,hdr->bhd": bhr_hdr,
}


@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize("name", CALLS)
def test_a_kernel_for_packed_scales_is_chosen(sm120: Context, name: str, block: int) -> None:
    with pytest.raises(NotBuiltError) as caught:
        CALLS[name](block)
    d = "f32" if name.endswith("f32") else "bf16"
    assert caught.value.message.startswith(f"grouped_gemm_sm120f_e4m3_e4m3_{d}_1x{block}_ue8m0_")


@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize("name", CALLS)
def test_words_reach_the_kernel_as_they_lie(recorded: Call, name: str, block: int) -> None:
    CALLS[name](block)
    assert recorded.named["scale_block"] == block
    of_a, of_b = recorded.factors(K)
    batch_a = (2,) if name in {"rows valid", "bhr,hdr->bhd"} else ()
    batch_b = (2,) if batch_a or name in {"row index", "ends"} else ()
    m = 256 if name == "ends" else M
    assert torch.equal(of_a, operand(*batch_a, m, K, block=block).factors)
    assert torch.equal(of_b, operand(*batch_b, N, K, block=block, seed=1).factors)


def test_the_recipe_of_packed_scales_is_of_rows(recorded: Call) -> None:
    """DeepGEMM's default, if B's are packed."""
    a, b = operand(M, K, block=128), operand(N, K, block=128, seed=1)
    deep_gemm.fp8_gemm_nt(a.pair, b.pair, bf16(M, N))
    assert recorded.named["scale_block"] == 128
    assert torch.equal(recorded.factors(K)[1], b.factors)


def test_blocks_of_two_sizes_meet_in_the_smaller(recorded: Call) -> None:
    a, b = operand(M, K, block=128), operand(N, K, block=32, seed=1)
    deep_gemm.fp8_fp4_gemm_nt(a.pair, b.pair, bf16(M, N), recipe_a=(1, 128), recipe_b=(1, 32))
    assert recorded.named["scale_block"] == 32
    of_a, of_b = recorded.factors(K)
    assert torch.equal(of_a, a.factors)
    assert torch.equal(of_b, b.factors)


@pytest.mark.parametrize(("rows", "block"), [(1, 32), (128, 32), (1, 128), (128, 128)])
def test_floats_beside_words_are_packed(all_hosts: Context, recorded: Call, rows: int, block: int) -> None:
    a = operand(M, K, block=32)
    exponents = codes(N // rows, K // block, seed=1)
    b = torch.zeros(N, K, dtype=torch.float8_e4m3fn), values(exponents)
    deep_gemm.fp8_fp4_gemm_nt(a.pair, b, bf16(M, N), recipe_a=(1, 32), recipe_b=(rows, block))
    assert recorded.named["scale_block"] == 32
    of_a, of_b = recorded.factors(K)
    assert torch.equal(of_a, a.factors)
    assert torch.equal(of_b, values(exponents).repeat_interleave(rows, 0).repeat_interleave(block, 1))


def test_floats_of_32_are_packed(all_hosts: Context, recorded: Call) -> None:
    scales = [values(codes(rows, K // 32, seed=rows)) for rows in (M, N)]
    a, b = (
        (torch.zeros(rows, K, dtype=torch.float8_e4m3fn), of) for rows, of in zip((M, N), scales, strict=True)
    )
    deep_gemm.fp8_gemm_nt(a, b, bf16(M, N), recipe=(1, 1, 32))
    for actual, expected in zip(recorded.factors(K), scales, strict=True):
        assert torch.equal(actual, expected.repeat_interleave(32, 1))
    with pytest.raises(ArgumentError, match="disable_ue8m0_cast: it is True"):
        deep_gemm.fp8_gemm_nt(a, b, bf16(M, N), recipe=(1, 1, 32), disable_ue8m0_cast=True)


NAMES = {torch.int8: "mxfp4", torch.float8_e4m3fn: "e4m3"}


def data(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Random bytes; FP4 has two elements to each, as DeepGEMM holds them."""
    *rows, k = shape
    held = (*rows, k // 2 if dtype == torch.int8 else k)
    return torch.randint(0, 120, held, generator=torch.Generator().manual_seed(k)).to(torch.uint8).view(dtype)


@pytest.mark.parametrize("b", NAMES)
@pytest.mark.parametrize("a", NAMES)
@pytest.mark.parametrize("grouping", ["none", "index", "ends", "masked", "heads", "einsum"])
def test_fp4_chooses_a_kernel(sm120: Context, grouping: str, a: torch.dtype, b: torch.dtype) -> None:
    """FP4 weights, activations or both, whose words are of 32 of k."""
    batch_a = (2,) if grouping in {"masked", "einsum"} else ()
    batch_b = () if grouping in {"none", "heads"} else (2,)
    x = data(a, *batch_a, M, K), operand(*batch_a, M, K, block=32).words
    y = data(b, *batch_b, N, K), operand(*batch_b, N, K, block=32).words
    recipes: dict[str, Any] = {"recipe_a": (1, 32), "recipe_b": (1, 32)}
    rows = torch.zeros(M, dtype=torch.int32)
    by_head = x[0].transpose(0, 1), x[1].transpose(0, 1)
    calls: dict[str, Callable[[], object]] = {
        "none": lambda: deep_gemm.fp8_fp4_gemm_nt(x, y, bf16(M, N), **recipes),
        "heads": lambda: deep_gemm.fp8_gemm_nt_skip_head_mid(
            x, y, bf16(M, 384), (64, 64, 64), recipe=(1, 1, 32)
        ),
        "index": lambda: deep_gemm.m_grouped_fp8_fp4_gemm_nt_contiguous(x, y, bf16(M, N), rows, **recipes),
        "ends": lambda: deep_gemm.m_grouped_fp8_fp4_gemm_nt_contiguous(
            x, y, bf16(M, N), GROUPS // 2, **recipes, use_psum_layout=True
        ),
        "masked": lambda: deep_gemm.m_grouped_fp8_fp4_gemm_nt_masked(
            x, y, bf16(2, M, N), GROUPS // 2, 64, **recipes
        ),
        "einsum": lambda: deep_gemm.fp8_einsum("bhr,hdr->bhd", by_head, y, bf16(M, 2, N), recipe=(1, 1, 32)),
    }
    with pytest.raises(NotBuiltError, match=f"^grouped_gemm_sm120f_{NAMES[a]}_{NAMES[b]}_bf16_1x32_ue8m0_"):
        calls[grouping]()


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
def test_fp4_of_any_layout_reaches_the_kernel(recorded: Call, layout: str) -> None:
    """With m or n contiguous, two of which are in a byte."""
    operands = [(data(torch.int8, rows, K), operand(rows, K, block=32, seed=rows)) for rows in (M, N)]
    passed = []
    for (codes, scaled), turned in zip(operands, (layout[0] == "t", layout[1] == "n"), strict=True):
        turns = deep_gemm.utils.math.transpose_packed_fp4(codes), scaled.words.mT
        passed.append(turns if turned else (codes, scaled.words))
    product = getattr(deep_gemm, f"fp8_fp4_gemm_{layout}")
    product(*passed, bf16(M, N), recipe_a=(1, 32), recipe_b=(1, 32))
    left, right = recorded.positional[0], recorded.positional[1].mT
    for actual, (codes, _) in zip((left, right), operands, strict=True):
        assert actual.dtype == torch.uint8
        assert torch.equal(actual, codes.view(torch.uint8))
    for actual, (_, scaled) in zip(recorded.factors(K), operands, strict=True):
        assert torch.equal(actual, scaled.factors)


def test_factors_beside_fp4_are_those_of_32(recorded: Call) -> None:
    """DeepGEMM's mixed recipe: FP8 with words of 128 by FP4 with words of 32."""
    a, b = operand(M, K, block=128), operand(2, N, K, block=32, seed=1)
    d, rows = bf16(M, N), torch.zeros(M, dtype=torch.int32)
    weights = data(torch.int8, 2, N, K), b.words
    recipes: dict[str, Any] = {"recipe_a": (1, 128), "recipe_b": (1, 32)}
    deep_gemm.m_grouped_fp8_fp4_gemm_nt_contiguous(a.pair, weights, d, rows, **recipes)
    assert recorded.named["scale_block"] == 32
    of_a, of_b = recorded.factors(K)
    assert torch.equal(of_a, a.factors)
    assert torch.equal(of_b, b.factors)


def of_groups(rows: int, block: int, seed: int) -> Operand:
    """An operand whose k is divided by SIZES, of which each group begins with a new word."""
    parts = [operand(rows, int(k), block=block, seed=seed + i) for i, k in enumerate(SIZES) if k]
    return Operand(
        torch.cat([part.data.flatten() for part in parts]),
        blockwise_scales.m_major(torch.cat([part.words for part in parts], 1)),
        torch.cat([part.factors for part in parts], 1),
    )


@pytest.mark.parametrize("block", [32, 128])
def test_words_of_groups_of_k(recorded: Call, block: int) -> None:
    a, b = of_groups(72, block, 0), of_groups(136, block, 10)
    d = torch.zeros(len(SIZES), 72, 136)
    deep_gemm.k_grouped_fp8_gemm_nt_contiguous(a.pair, b.pair, d, SIZES.tolist(), SIZES, d, (1, 1, block))
    assert recorded.named["scale_block"] == 32
    rows, columns = recorded.positional[-2:]
    k = int(SIZES.sum())
    assert torch.equal(factors(rows, 32, k), a.factors)
    assert torch.equal(factors(columns.mT, 32, k), b.factors)


@pytest.mark.parametrize("layout", ["nt", "tn"])
def test_groups_of_k_choose_a_kernel_for_packed_scales(sm120: Context, layout: str) -> None:
    a, b = of_groups(72, 32, 0), of_groups(136, 32, 10)
    d, sizes = torch.zeros(len(SIZES), 72, 136), SIZES.tolist()
    if layout == "nt":
        with pytest.raises(NotBuiltError, match="grouped_gemm_sm120f_e4m3_e4m3_f32_1x32_ue8m0_"):
            deep_gemm.k_grouped_fp8_gemm_nt_contiguous(a.pair, b.pair, d, sizes, SIZES, d, (1, 1, 32))
        return
    pairs = [(x.data.view(-1, rows), x.words.mT) for x, rows in ((a, 72), (b, 136))]
    with pytest.raises(NotBuiltError, match="transpose_fp8_sm120f"):
        deep_gemm.k_grouped_fp8_gemm_tn_contiguous(*pairs, d, sizes, SIZES, d, (1, 1, 32))


@pytest.mark.parametrize(
    ("recipes", "message"),
    [
        ({"recipe": (1, 128, 32)}, r"b's is \(128, 32\); packed scales of b are those of single rows"),
        ({"recipe": (1, 1, 128)}, r"a: its scales have shape \(128, 9\); expected \(128, 3\) by \(1, 128\)"),
        ({"recipe": (1, 1, 16)}, "recipe: it is "),
    ],
)
def test_what_packed_scales_are_not(recipes: dict[str, Any], message: str) -> None:
    a, b = operand(M, K, block=32), operand(N, K, block=32)
    words = operand(2, K, block=32).words if recipes["recipe"][1] == 128 else b.words
    with pytest.raises(ArgumentError, match=message):
        deep_gemm.fp8_gemm_nt(a.pair, (b.data, words), bf16(M, N), **recipes)
