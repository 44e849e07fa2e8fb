"""DeepGEMM's logits with 8 heads and with weights of 16 bits, which `compat.deep_gemm` brings to what kernels
read, against float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tilewright.compat import deep_gemm
from tilewright.errors import NotBuiltError
from tilewright.families.mqa_logits.measuring import TOLERANCES, pages_of, reference
from tilewright.tools.reference.comparison import difference

pytestmark = pytest.mark.marks_kernels
KEYS = 300
FP8 = torch.float8_e4m3fn
MOST_ENDS = (0, 1, 64, 65, 300, 299, 128, 7, 200, 300)  # of keys that the queries look at


def random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator("cuda").manual_seed(seed), device="cuda")


def words(*shape: int, seed: int) -> torch.Tensor:
    """Four exponents of UE8M0, of 2^-4 to 2, to an int32."""
    generator = torch.Generator("cuda").manual_seed(seed)
    exponents = torch.randint(123, 129, (*shape, 4), generator=generator, device="cuda", dtype=torch.uint8)
    return exponents.view(torch.int32).squeeze(-1)


def operands(q: str, queries: int, keys: int, heads: int) -> tuple[Any, Any, Any, Any]:
    """q, its exponents, keys and their scales; FP4 of any code."""
    if q == "e4m3":
        scales = random(keys, seed=3).abs() + 0.1
        return random(queries, heads, 128, seed=1).to(FP8), None, random(keys, 128, seed=2).to(FP8), scales
    generator = torch.Generator("cuda").manual_seed(1)
    shapes = (queries, heads, 64), (keys, 64)
    codes = [torch.randint(256, s, generator=generator, device="cuda", dtype=torch.uint8) for s in shapes]
    return codes[0], words(queries, heads, seed=4), codes[1], words(keys, seed=3)


@pytest.fixture(autouse=True)
def built() -> None:
    q, keys = torch.zeros(1, 16, 128, device="cuda").to(FP8), torch.zeros(1, 128, device="cuda").to(FP8)
    ends = torch.ones(1, dtype=torch.int32, device="cuda")
    weights = torch.ones(1, 16, device="cuda")
    try:
        deep_gemm.fp8_mqa_logits(q, (keys, weights[0, :1]), weights, ends - 1, ends)
    except NotBuiltError as error:
        pytest.skip(error.message)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("heads", [8, 16])
@pytest.mark.parametrize("q", ["e4m3", "mxfp4"])
def test_ranges(q: str, heads: int, dtype: torch.dtype) -> None:
    queries = len(MOST_ENDS)
    data, q_words, keys, scales = operands(q, queries, KEYS, heads)
    weights = random(queries, heads, seed=5).to(dtype)
    starts = torch.zeros(queries, dtype=torch.int32, device="cuda")
    ends = torch.tensor(MOST_ENDS, dtype=torch.int32, device="cuda")
    logits = deep_gemm.fp8_fp4_mqa_logits((data, q_words), (keys, scales), weights, starts, ends)
    seen = torch.arange(KEYS, device="cuda") < ends[:, None]
    exact = reference(data, keys, scales, weights.float(), q_words)
    assert bool((logits[~seen] == -torch.inf).all())
    assert difference(logits[seen].double(), exact[seen]) < TOLERANCES["f32"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("heads", [8, 16])
@pytest.mark.parametrize("q", ["e4m3", "mxfp4"])
def test_pages(q: str, heads: int, dtype: torch.dtype) -> None:
    sequences, next_n = 5, 2
    data, q_words, keys, scales = operands(q, sequences * next_n, sequences * KEYS, heads)
    cache, table = pages_of(keys, scales, sequences, 64)
    weights = random(sequences * next_n, heads, seed=5).to(dtype)
    ends = torch.tensor(MOST_ENDS, dtype=torch.int32, device="cuda").view(sequences, next_n)
    schedule = deep_gemm.get_paged_mqa_logits_metadata(ends, 64, 132)
    logits = deep_gemm.fp8_fp4_paged_mqa_logits(
        (
            data.view(sequences, next_n, heads, -1),
            None if q_words is None else q_words.view(sequences, next_n, heads),
        ),
        cache.view(*cache.shape[:1], 64, 1, -1), weights, ends, table, schedule, KEYS, clean_logits=True,
    )  # fmt: skip
    for i, end in enumerate(MOST_ENDS):
        part = slice(i // next_n * KEYS, i // next_n * KEYS + KEYS)
        of_query = None if q_words is None else q_words[i : i + 1]
        exact = reference(data[i : i + 1], keys[part], scales[part], weights[i : i + 1].float(), of_query)[0]
        assert bool((logits[i, end:] == -torch.inf).all())
        if end:
            assert difference(logits[i, :end].double(), exact[:end]) < TOLERANCES["f32"]
