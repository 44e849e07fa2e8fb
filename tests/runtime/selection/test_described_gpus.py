"""What GPUs that nobody had at hand would run: a kernel for each shape of the pull requests that Tilewright
began with, and for DeepGEMM's, whatever is built here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tilewright.architectures.device import B200, B300, DESCRIBED, THOR, DeviceProperties
from tilewright.declarations.catalog import family_module
from tilewright.families.blockscaled_gemm.problem import Problem as Blockscaled
from tilewright.families.gemm.problem import Problem as Dense
from tilewright.families.grouped_gemm.problem import Problem as Grouped
from tilewright.families.hc_prenorm.problem import Problem as Prenorm
from tilewright.families.mqa_logits.problem import Problem as Logits
from tilewright.families.quantize.problem import Problem as Quantize
from tilewright.libraries.registry import Registry
from tilewright.tools.benchmarking.sizes import LISTS

RUBIN = DESCRIBED["rubin"]
DEVICES = (B200, B300, THOR, RUBIN)
# Extents of DeepGEMM's tests: n and k of dense products; groups, rows of each, n and k.
DENSE = [(2112, 7168), (576, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048)]
CONTIGUOUS = [(4, 8192, 6144, 7168), (4, 8192, 7168, 3072), (8, 4096, 4096, 4096), (8, 4096, 4096, 2048)]
MASKED = [(32, 192, 6144, 7168), (6, 1024, 7168, 3072), (32, 20, 4096, 4096), (6, 20, 4096, 2048)]
GROUPED_SCALES = ("128x128", "1x32_ue8m0", "1x128_ue8m0")


def seeds() -> Iterator[tuple[str, Any]]:
    for k in (8192, 28672):  # FlashInfer 2303
        for m in (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 24576, 32768):
            yield "blockscaled_gemm", Blockscaled(m, 8192, k)
    for size in LISTS["all"]:  # 2888
        yield "blockscaled_gemm", Blockscaled(*size.numbers)
    yield "blockscaled_gemm", Blockscaled(32, 5120, 25600)  # 2460
    for m in (128, 8192, 131072):  # 2838
        for k in (512, 8192, 32768):
            yield "quantize", Quantize(m, k)


def deep_gemm() -> Iterator[tuple[str, Any]]:
    for n, k in DENSE:
        for m in (1, 128, 4096):
            yield "gemm", Dense(m, n, k)
            for a in ("mxfp8", "mxfp4"):
                for b in ("mxfp8", "mxfp4"):
                    yield "blockscaled_gemm", Blockscaled(m, n, k, a=a, b=b)


def groups() -> Iterator[tuple[str, Any]]:
    for grouping, shapes in (("row_index", CONTIGUOUS), ("rows_valid", MASKED)):
        for count, m, n, k in shapes:
            rows = {"m": m * count} if grouping == "row_index" else {"m": 4096, "expected_m": m}
            asked = {**rows, "n": n, "k": k, "groups": count, "grouping": grouping}
            yield "grouped_gemm", Grouped(**asked, a="bf16", b="bf16", scales="none")
            for scales in GROUPED_SCALES:
                yield "grouped_gemm", Grouped(**asked, scales=scales)
    for count in (4, 8, 16):  # along k
        for m, n in ((4096, 7168), (7168, 2048)):
            asked = {"m": m, "n": n, "k": 8192 * count, "groups": count, "grouping": "k_sizes", "d": "f32"}
            yield "grouped_gemm", Grouped(**asked, c="f32", scales="1x32_ue8m0")


def others_of_deep_gemm() -> Iterator[tuple[str, Any]]:
    """Einsums, the product before a norm, and the logits of an indexer."""
    for m in (1, 128, 4096):
        yield "gemm", Dense(m, 512, 4096, batch=64)
        yield "blockscaled_gemm", Blockscaled(m, 512, 4096, a="mxfp8", b="mxfp8", batch=8)
    for m in (13, 137, 4096, 8192):
        for k in (28672, 7680, 7168):
            for splits in (1, 16):
                yield "hc_prenorm", Prenorm(m, 24, k, splits=splits)
    for q in ("e4m3", "mxfp4"):
        for heads in (32, 64):
            yield "mqa_logits", Logits(4096, 8192, heads=heads, q=q)
            yield "mqa_logits", Logits(64, 8192, heads=heads, q=q, form="paged")


def lacking(committed: Registry, device: DeviceProperties, asked: Iterator[tuple[str, Any]]) -> list[Any]:
    """Problems for which no kernel with an estimate runs there."""
    none = []
    for name, problem in asked:
        records = committed.route(name, device)
        best = next(iter(family_module(name, "family").FAMILY.rank(records, problem, device)), None)
        if best is None or best.estimate is None:
            none.append(problem)
    return none


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_the_shapes_of_the_seeds_have_a_kernel(committed: Registry, device: DeviceProperties) -> None:
    assert lacking(committed, device, seeds()) == []


def test_rubins_own_kernels_are_first_where_multiplying_takes_longest(committed: Registry) -> None:
    """And kernels of the whole family where it does not."""
    records = committed.route("blockscaled_gemm", RUBIN)
    rank = family_module("blockscaled_gemm", "family").FAMILY.rank
    firsts = [next(iter(rank(records, Blockscaled(m, 8192, 8192), RUBIN))) for m in (4096, 8)]
    assert [committed.record(first.tactic.kernel).arch for first in firsts] == ["sm_107a", "sm_100f"]
    for device in (B200, B300):
        assert "sm_107a" not in {record.arch for record in committed.route("blockscaled_gemm", device)}


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_the_dense_shapes_of_deep_gemm_have_a_kernel(committed: Registry, device: DeviceProperties) -> None:
    assert lacking(committed, device, deep_gemm()) == []


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_the_other_shapes_of_deep_gemm_have_a_kernel(committed: Registry, device: DeviceProperties) -> None:
    assert lacking(committed, device, others_of_deep_gemm()) == []


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_the_groups_of_deep_gemm_have_a_kernel(committed: Registry, device: DeviceProperties) -> None:
    assert lacking(committed, device, groups()) == []
