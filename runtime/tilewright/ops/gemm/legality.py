"""Which kernels of a table compute a problem, and why the others do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tilewright.ops.gemm.problem import Kind, Problem
from tilewright.ops.gemm.tactics import Tactic
from tilewright.table import KernelRecord


def misfit(record: KernelRecord, problem: Problem) -> str | None:
    """None where the kernel computes the problem, else the reason."""
    return misfit_kind(record, problem.kind) or misfit_extents(record, problem)


def misfit_kind(record: KernelRecord, kind: Kind) -> str | None:
    """None where the kernel computes problems of the kind, for some extents, else the reason."""
    config = record.config
    for field in ("a", "b", "d", "layout", "activation"):
        if config[field] != getattr(kind, field):
            return f"its {field} is {config[field]}, not {getattr(kind, field)}"
    if kind.bias and not config["bias"]:
        return "it adds no bias"
    if kind.c and config["c"] == "none":
        return "it adds no C"
    if config["fast_accum"] and not kind.fast_accum:
        return "it sums with fast accumulation, which the call does not allow"
    return None


def misfit_extents(record: KernelRecord, problem: Problem) -> str | None:
    """None where the kernel takes the problem's extents, else the reason."""
    alignment = record.facts["alignment"]
    for matrix, extent in problem.contiguous_extents().items():
        if extent % alignment[matrix]:
            return (
                f"{matrix} has {extent} elements along its contiguous dimension, "
                f"which is not a multiple of {alignment[matrix]} (16 bytes, for TMA)"
            )
    return None


def misfit_splits(tactic: Tactic, record: KernelRecord) -> str | None:
    splits = tactic.splits > 1 or tactic.decomposition in ("split_k", "stream_k")
    if splits and record.config["scheduler"] != "stream_k":
        return "only stream-K kernels split k"
    return None


def misfit_tactic(tactic: Tactic, record: KernelRecord, problem: Problem) -> str | None:
    """None where the tactic computes the problem, else the reason."""
    return misfit_splits(tactic, record) or misfit(record, problem)


def fitting(records: Iterable[KernelRecord], problem: Problem) -> list[KernelRecord]:
    kind = problem.kind
    return [
        record
        for record in records
        if misfit_kind(record, kind) is None and misfit_extents(record, problem) is None
    ]


def explain(records: Iterable[KernelRecord], problem: Problem) -> str:
    """Why none of `records` fits: each reason with the number of kernels that it excludes."""
    reasons = Counter(misfit(record, problem) or "" for record in records)
    return "\n".join(f"  {count} kernels: {reason}" for reason, count in reasons.most_common(8) if reason)
