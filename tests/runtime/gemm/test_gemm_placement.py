"""Where operands of `gemm` lie: the problem that is computed on an H200, and what is copied before."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilewright
from tilewright.architectures.device import H200
from tilewright.calls import call_planning, checks
from tilewright.calls.placement import Placement
from tilewright.context import Context
from tilewright.families.gemm.placement import place
from tilewright.libraries.registry import Registry


@pytest.fixture(scope="module")
def context() -> Context:
    return Context(Registry(), described=H200)


def placed(
    context: Context,
    a: torch.Tensor,
    b: torch.Tensor,
    addresses: dict[str, int] | None = None,
    **options: Any,
) -> Placement:
    """`addresses`: what those of operands are multiples of, where that is less than 16."""
    op, values = call_planning.bind_arguments(tilewright.gemm, (a, b), options)
    return place(context, checks.check(op, context, op.with_factors(values)), H200, addresses or {})


def rows(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)


@pytest.mark.parametrize(("a", "b", "layout"), [
    (rows(16, 32), rows(24, 32).t(), "tn"), (rows(32, 16).t(), rows(24, 32).t(), "nn"),
    (rows(16, 32), rows(32, 24), "tt"), (rows(32, 16).t(), rows(32, 24), "nt"),
])  # fmt: skip
def test_a_layout_that_kernels_have_is_kept(
    context: Context, a: torch.Tensor, b: torch.Tensor, layout: str
) -> None:
    placement = placed(context, a, b)
    assert (placement.problem.layout, placement.copies) == (layout, frozenset())


def test_a_copy_has_k_contiguous(context: Context) -> None:
    a, b = rows(32, 16).t(), rows(32, 24)
    placement = placed(context, a, b, {"a": 2})
    assert (placement.problem.layout, placement.copies) == ("tt", {"a"})
    placement = placed(context, a, b, {"a": 2, "b": 8})
    assert (placement.problem.layout, placement.copies) == ("tn", {"a", "b"})


def test_the_alignment_of_a_result_is_that_of_its_rows(context: Context) -> None:
    """A stride between the first row, or the first matrix, and none that follows counts for nothing."""
    b = rows(24, 32).t()
    assert placed(context, rows(16, 32), b).problem.alignment == 16
    assert placed(context, rows(16, 32), b, out=rows(16, 25)[:, :24]).problem.alignment == 2
    assert placed(context, rows(1, 32), b, out=rows(1, 25)[:, :24]).problem.alignment == 16
    batches = rows(3, 32, 24)
    of_each = rows(3, 16 * 24 + 4)[:, : 16 * 24].view(3, 16, 24)
    assert placed(context, rows(3, 16, 32), batches, out=of_each).problem.alignment == 8
    assert placed(context, rows(1, 16, 32), batches[:1], out=of_each[:1]).problem.alignment == 16
    assert placed(context, rows(16, 32), b, {"out": 4}).problem.alignment == 4
    assert placed(context, rows(16, 32), b, {"b": 16}, bias=rows(24)).problem.alignment == 16


def test_what_cutlass_cannot_write_is_written_elsewhere(context: Context) -> None:
    """TF32 has CUTLASS's kernels alone: their D is aligned, and n and k are multiples of 16 bytes."""
    a, b = (rows(*shape, dtype=torch.float32) for shape in ((16, 32), (24, 32)))
    placement = placed(context, a, b.t(), {"out": 4})
    assert (placement.copies, placement.problem.alignment) == ({"out"}, 16)
    placement = placed(context, a[:, :30], b[:22, :30].t(), bias=rows(22, dtype=torch.float32))
    assert placement.copies == {"a", "b", "out", "bias"}
    assert (placement.problem.n, placement.problem.k) == (24, 32)
