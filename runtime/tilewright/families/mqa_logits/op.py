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

    def without_kernel(self, problem: Problem, values: Values) -> None:
        """The result if there are no keys to look at, or no sequences to schedule."""
        if problem.form == "schedule" or problem.clean:
            values["out"].fill_(0 if problem.form == "schedule" else -torch.inf)


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
        for name, pages in (("kv_cache", problem.cache_pages), ("block_table", problem.table_pages)):
            refuse(certainly(queries > 0) and pages < 1, name, "expected at least one page, got none")
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
    """Computes the logits of an indexer: out[i, j] = kv_scale[j] * sum over h of weights[i, h] * relu(q[i, h]
    . kv[j]) for starts[i] <= j < ends[i], on the current stream. Sums are FP32. Keys that no query looks at
    are not read.

    Args:
        q: [queries, heads, head_dim], float8_e4m3fn; 16, 32 or 64 heads of 32, 64 or 128 elements. FP4 is
            [queries, heads, head_dim / 2], uint8 or float4_e2m1fn_x2, of heads of 64 or 128 elements.
        kv: [keys, head_dim], of q's dtype: one head, which all heads of a query share.
        kv_scale: [keys], float32, contiguous. For FP4 int32: an exponent (UE8M0) for each 32 elements of a
            key, the first in the lowest byte. Keys of 64 elements have two exponents; other bytes are not
            read.
        weights: [queries, heads], float32.
        starts, ends: [queries], int32 on the device: the range of keys that each query looks at. It is cut to
            the keys that exist, and is empty if the end is not beyond the start.
        q_scale: [queries, heads], int32, contiguous: exponents as in kv_scale, for FP4 only.
        out: [queries, keys], rows contiguous; made if absent.
        out_dtype: float32 (the default) or bfloat16, where `out` is absent.
        columns: if not 0, rows are compressed. `out` is [queries, columns], and key j of query i is in column
            j - starts[i]; keys beyond the last column are left out.
        clean: whether all other elements of `out` become -infinity; otherwise they keep their values.
        tactic: a kernel's name, or a tactic (`NAME@splits=4`: parts into which the keys of a block of queries
            are divided), instead of the one the model selects.

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
    """Computes logits, as `mqa_logits` does, for keys in pages of a cache: query i looks at the first keys of
    its sequence.

    Args:
        q: [queries, heads, head_dim], as in `mqa_logits`. Every sequence has the same number of queries (at
            most 32), and sequences follow one another; with `indices`, sequences may have any number.
        kv_cache: [pages, page * (head_dim + 4)], float8_e4m3fn or uint8: in each page the data of 32 or 64
            keys, then their scales, float32. For FP4 [pages, page * (head_dim / 2 + 4)].
        lengths: int32 on the device: the number of keys that each query looks at; or one number for each
            sequence, for its last query. Each query before it then looks at one key less.
        block_table: [sequences, pages of a sequence], int32, rows contiguous: the pages of each sequence.
        schedule: the result of `paged_mqa_schedule` for the same lengths and indices.
        keys: the columns of the logits; longer lengths are cut to it.
        indices: [queries], int32, for batches of variable length: the sequence of each query. Queries of a
            sequence follow one another. `block_table` then has a row for each query.
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
    """Divides the work of `paged_mqa_logits` evenly: thread blocks get equal numbers of tiles of 64 keys, or
    one tile more.

    Args:
        lengths: int32 on the device, contiguous: one for each sequence, or for each of its `next_n` queries.
        blocks: thread blocks: the GPU's multiprocessors.
        next_n: the number of lengths of a sequence.
        indices: as in `paged_mqa_logits`; there is then a length for each query.
        out: [blocks + 1, 2], int32; made if absent.
        tactic: a kernel's name, instead of the one selected.

    Returns:
        [blocks + 1, 2]: where each block begins, and where the last one ends: a sequence (with indices, a
        query), and the number of tiles of its keys that come before.
    """
    raise AssertionError("`calls.protocol` writes the body")
