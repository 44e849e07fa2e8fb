"""The public ops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tilewright.calls.guards import certainly, check_most, refuse
from tilewright.calls.op import Op, Values
from tilewright.calls.publish import public
from tilewright.declarations.tactics import Tactic
from tilewright.families.mqa_logits.family import FAMILY
from tilewright.families.mqa_logits.interface import INTERFACE
from tilewright.families.mqa_logits.problem import MOST_TOKENS, PAGES, SCALE_BYTES, Problem


class _Ragged(Op):
    interface, family = INTERFACE, FAMILY
    passed: tuple[str, ...] = ("q", "kv", "out")

    def without_kernel(self, problem: Problem, given: Values) -> None:
        """There are no keys to look at, or no sequences to schedule."""
        if problem.form == "schedule" or problem.clean:
            given["out"].fill_(0 if problem.form == "schedule" else -torch.inf)


class _Paged(_Ragged):
    passed = ("q", "kv_cache", "out")

    def fields(self, values: Values) -> Mapping[str, Any]:
        shapes = (values[name].shape for name in ("block_table", "kv_cache", "q"))
        # The checks refuse a tensor of fewer dimensions.
        ends = ((shape[0], shape[-1]) if len(shape) > 1 else (0, 0) for shape in shapes)
        (sequences, table_pages), (pages, page_bytes), (queries, row) = ends
        return {
            "form": "paged", "next_n": queries // max(sequences, 1),
            "per_token": certainly(queries == values["lengths"].numel()),
            "table_pages": table_pages, "cache_pages": pages, "page": page_bytes // (row + SCALE_BYTES),
            "blocks": values["schedule"].numel() // 2 - 1,
        }  # fmt: skip

    def rules(self, values: Values, problem: Problem) -> None:
        sequences, queries = next(iter(values["block_table"].shape), 0), problem.queries
        alone, next_n, page = values["indices"] is not None, problem.next_n, problem.page
        uneven = sequences != queries if alone or certainly(sequences == 0) else queries % sequences != 0
        rows = f"a row for each {'query' if alone else 'sequence, all of as many queries'}"
        refuse(uneven, "block_table", f"expected {rows}, got {sequences} rows for {queries} queries")
        several = f"expected at most {MOST_TOKENS} queries of a sequence, got {next_n}"
        refuse(next_n > MOST_TOKENS, "q", several)
        refuse(problem.blocks < 1, "schedule", "expected a result of paged_mqa_schedule, got no thread block")
        refuse(page not in PAGES, "kv_cache", f"expected {PAGES[0]} or {PAGES[1]} keys in a page, got {page}")


class _Schedule(_Ragged):
    passed = ("lengths", "out")

    def fields(self, values: Values) -> Mapping[str, Any]:
        queries = values["lengths"].numel()
        check_most("lengths", queries, "its number of elements")
        return {"form": "schedule", "queries": queries, "columns": 2}

    def rules(self, values: Values, problem: Problem) -> None:
        next_n, tokens, indexed = problem.next_n, problem.queries, values["indices"] is not None
        refuse(tokens % next_n != 0, "lengths", f"expected a multiple of {next_n} elements, got {tokens}")
        refuse(indexed and next_n != 1, "indices", f"expected next_n of 1 beside indices, got {next_n}")


@public(_Ragged())
def mqa_logits(  # noqa: PLR0917 (as users of DeepGEMM pass them)
    q: torch.Tensor,
    kv: torch.Tensor,
    kv_scale: torch.Tensor,
    weights: torch.Tensor,
    starts: torch.Tensor,
    ends: torch.Tensor,
    *,
    q_scale: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    columns: int = 0,
    clean: bool = True,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Logits of an indexer: out[i, j] = kv_scale[j] * sum over h of weights[i, h] * relu(q[i, h] . kv[j]) for
    starts[i] <= j < ends[i], on the current stream. Sums are F32. What no query looks at is not read.

    Args:
        q: [queries, heads, head_dim], float8_e4m3fn; 16, 32 or 64 heads of 32, 64 or 128 elements. FP4 is
            [queries, heads, head_dim / 2], uint8 or float4_e2m1fn_x2, of heads of 64 or 128 elements.
        kv: [keys, head_dim], of q's dtype: one head, which all heads of a query share.
        kv_scale: [keys], float32, contiguous. Of FP4 int32: the exponents (UE8M0) of each 32 elements of a
            key, the first in the lowest byte; those of 64 elements have two, and other bytes are not read.
        weights: [queries, heads], float32.
        starts, ends: [queries], int32 on the device: the keys that each query looks at, as far as there are
            such; none where the end is not beyond the start.
        q_scale: [queries, heads], int32, contiguous: of FP4 alone, as kv_scale.
        out: [queries, keys], rows contiguous; made if absent.
        out_dtype: float32 (the default) or bfloat16, where `out` is absent.
        columns: not 0: rows are compressed. `out` is [queries, columns], and key j of query i stands in
            column j - starts[i]; what does not fit is left out.
        clean: whether all else in `out` becomes -infinity; left as it is otherwise.
        tactic: a kernel's name, or a tactic (`NAME@splits=4`: parts that the keys of some queries are cut
            into), instead of the one the model selects.

    Returns:
        The logits. Empty where there are no queries or no columns.

    Raises:
        AlignmentError: an operand that TMA cannot read: addresses and strides are multiples of 16 bytes.
    """
    raise AssertionError("`calls.protocol` writes the body")


@public(_Paged())
def paged_mqa_logits(  # noqa: PLR0917 (as users of DeepGEMM pass them)
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    weights: torch.Tensor,
    lengths: torch.Tensor,
    block_table: torch.Tensor,
    schedule: torch.Tensor,
    *,
    keys: int,
    q_scale: torch.Tensor | None = None,
    indices: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    clean: bool = False,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """As `mqa_logits`, of keys that lie in pages of a cache: query i looks at the first keys of its sequence.

    Args:
        q: [queries, heads, head_dim], as `mqa_logits` has them: equally many of each sequence (at most 32),
            one sequence after the other; or, with `indices`, any.
        kv_cache: [pages, page * (head_dim + 4)], float8_e4m3fn or uint8: in each page the data of 32 or 64
            keys, then their scales, float32. Of FP4 [pages, page * (head_dim / 2 + 4)].
        lengths: int32 on the device: how many keys each query looks at; or, one for each sequence, how many
            its last query does, of which those before it have one less each.
        block_table: [sequences, pages of one], int32, rows contiguous: where the pages of each lie.
        schedule: of `paged_mqa_schedule`, from the same lengths and indices.
        keys: columns of the logits: lengths beyond that count as that.
        indices: [queries], int32, of a batch of variable length: which sequence each query is of, those of
            one together. `block_table` then has a row for each query.
    """
    raise AssertionError("`calls.protocol` writes the body")


@public(_Schedule())
def paged_mqa_schedule(
    lengths: torch.Tensor,
    *,
    blocks: int,
    next_n: int = 1,
    indices: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """What each thread block of `paged_mqa_logits` is to do: equally many tiles of 64 keys each, but for one.

    Args:
        lengths: int32 on the device, contiguous: of each sequence, or of each of its `next_n` queries.
        blocks: thread blocks: the GPU's multiprocessors.
        next_n: how many lengths a sequence has.
        indices: as `paged_mqa_logits` has them; there is a length for each query then.
        out: [blocks + 1, 2], int32; made if absent.
        tactic: a kernel's name, instead of the one selected.

    Returns:
        [blocks + 1, 2]: where each block begins, and the last one ends: a sequence (with indices, a
        query), and how many tiles of its keys come before.
    """
    raise AssertionError("`calls.protocol` writes the body")
