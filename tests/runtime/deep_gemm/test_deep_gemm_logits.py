"""DeepGEMM's functions of the logits of sparse attention."""

from __future__ import annotations

import mqa_operands as calls
import pytest
import torch

import tilewright
from tilewright.compat import deep_gemm
from tilewright.errors import ArgumentError
from tilewright.families.mqa_logits.measuring import reference
from tilewright.tools.reference.comparison import difference

pytestmark = pytest.mark.usefixtures("mqa_host")


def test_deep_gemms_names() -> None:
    """Rows at multiples of 1,024 bytes, four dimensions, lengths of two; a compressed form is not cleaned."""
    arguments = calls.ragged()
    kv, ranges = (arguments["kv"], arguments["kv_scale"]), (arguments["starts"], arguments["ends"])
    made = deep_gemm.fp8_mqa_logits(arguments["q"], kv, arguments["weights"], *ranges)
    assert made.stride() == (256, 1)
    assert torch.equal(made, tilewright.mqa_logits(**arguments | {"out": None}))
    with pytest.raises(ArgumentError, match="clean_logits"):
        deep_gemm.fp8_mqa_logits(arguments["q"], kv, arguments["weights"], *ranges, max_seqlen_k=40)
    short = deep_gemm.fp8_mqa_logits(arguments["q"], kv, arguments["weights"], *ranges, False, 40)
    assert torch.equal(short[0], made[0, :40])

    arguments = calls.paged() | {"out": None, "lengths": torch.tensor([[12, 70], [0, 40]], dtype=torch.int32)}
    schedule = deep_gemm.get_paged_mqa_logits_metadata(arguments["lengths"], calls.PAGE, 8)
    assert torch.equal(schedule, tilewright.paged_mqa_schedule(arguments["lengths"], blocks=8, next_n=2))
    q = arguments["q"].view(2, 2, calls.HEADS, calls.HEAD_DIM)
    cache = arguments["kv_cache"].view(6, calls.PAGE, 1, calls.HEAD_DIM + 4)
    actual = deep_gemm.fp8_paged_mqa_logits(
        q,
        cache,
        arguments["weights"],
        arguments["lengths"],
        arguments["block_table"],
        schedule,
        80,
        clean_logits=True,
    )
    assert torch.equal(actual, tilewright.paged_mqa_logits(**arguments))


def test_deep_gemms_names_of_fp4() -> None:
    """Operands as DeepGEMM's tests cast them."""
    utils = deep_gemm.utils
    x, y = calls.random(5 * calls.HEADS, 64), calls.random(70, 64, seed=1)
    q, q_scale = utils.per_token_cast_to_fp4(x, True, 32, True)
    kv, kv_scale = utils.per_token_cast_to_fp4(y, True, 32, True)
    arguments = calls.ragged()
    ranges = (arguments["starts"], arguments["ends"])
    actual = deep_gemm.fp8_fp4_mqa_logits(
        (q.view(5, calls.HEADS, 32), q_scale.view(5, calls.HEADS)),
        (kv, kv_scale.view(70)),
        arguments["weights"],
        *ranges,
    )
    cast = [utils.cast_back_from_fp4(*packed, 32, True) for packed in ((q, q_scale), (kv, kv_scale))]
    logits = reference(cast[0].view(5, calls.HEADS, 64), cast[1], torch.ones(70), arguments["weights"])
    looked_at = ~torch.isneginf(actual)
    assert difference(actual[looked_at], logits[looked_at]) < 1e-12

    arguments = calls.paged_fp4() | {"out": None}
    q, q_scale = (
        arguments["q"].view(torch.int8).view(2, 2, calls.HEADS, 32),
        arguments["q_scale"].view(2, 2, calls.HEADS),
    )
    cache, lengths = (
        arguments["kv_cache"].view(6, calls.PAGE, 1, 36),
        torch.tensor([[12, 70], [0, 40]], dtype=torch.int32),
    )
    actual = deep_gemm.fp8_fp4_paged_mqa_logits(
        (q, q_scale),
        cache,
        arguments["weights"],
        lengths,
        arguments["block_table"],
        arguments["schedule"],
        80,
        True,
    )
    assert torch.equal(actual, tilewright.paged_mqa_logits(**arguments | {"lengths": lengths}))

    few = 8  # heads: the others of a kernel's 16 are added with weights of 0
    weights = arguments["weights"].clone()
    weights[:, few:] = 0
    actual = deep_gemm.fp8_fp4_paged_mqa_logits(
        (q[:, :, :few], q_scale[:, :, :few]),
        cache,
        arguments["weights"][:, :few],
        lengths,
        arguments["block_table"],
        arguments["schedule"],
        80,
        True,
    )
    expected = tilewright.paged_mqa_logits(**arguments | {"lengths": lengths, "weights": weights})
    assert torch.equal(actual, expected)
