"""Which problems a block-scaled kernel does not compute, and which kernels give way to others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.architectures.device import B200, B300, H200
from tilewright.declarations.matrix_tactic import MATRIX_TACTIC
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.blockscaled_gemm.family import FAMILY
from tilewright.families.blockscaled_gemm.problem import Alignment, Problem
from tilewright.libraries.registry import Registry

Record = Callable[..., KernelRecord]


def test_clusters(blockscaled_record: Record) -> None:
    asked = Problem(512, 512, 2048)

    def of(**fields: Any) -> set[tuple[str, str]]:
        record = blockscaled_record("k", **fields)
        every = FAMILY.candidates(record, asked, H200)
        assert len(set(every)) == len(every)
        for tactic in every:
            assert FAMILY.misfit_tactic(tactic, record, asked) is None
            assert Tactic.parse(str(tactic)) == tactic
            assert tuple(MATRIX_TACTIC.values(tactic, 148)) == MATRIX_TACTIC.members
        return {(tactic.cluster, tactic.fallback) for tactic in every}

    assert of() == {("1x1", ""), ("1x2", "1x1"), ("1x4", "1x1")}
    assert of(schedule="2sm") == {
        ("2x1", ""), *((shape, "2x1") for shape in ("2x2", "2x4", "4x1", "4x2", "4x4")),
    }  # fmt: skip
    assert of(cluster=[2, 1]) == {("", "")}
    assert of(cluster=[1, 1], scheduler="stream_k") == {("", "")}
    values = MATRIX_TACTIC.values(Tactic.parse("k@cluster=4x2,fallback=2x1,swizzle=2"), 148)
    assert tuple(values.values()) == (0, 2, 0, 1, 0, 4, 2, 2, 1, 148)
    assert str(Tactic("k", "4x2", "2x1", splits=4)) == "k@cluster=4x2,fallback=2x1,splits=4"


def test_parts_of_k_on_hopper(blockscaled_record: Record) -> None:
    record = blockscaled_record(
        "k", arch="sm_90a", cluster=[1, 1], schedule="cooperative", tile=[64, 64, 128]
    )
    splits = [tactic.splits for tactic in FAMILY.candidates(record, Problem(16, 4096, 7168), H200)]
    assert splits == [1, 2, 4, 8]
    assert [tactic.splits for tactic in FAMILY.candidates(record, Problem(16, 4096, 256), H200)] == [1, 2]
    for wrong in ("splits=3", "splits=16", "decomposition=stream_k"):
        tactic = Tactic.parse(f"k@{wrong}")
        assert "in 1, 2, 4, 8 parts" in (FAMILY.misfit_arguments(tactic, record) or "")
    assert "only stream-K" in (FAMILY.misfit_arguments(Tactic("k", splits=2), blockscaled_record("k")) or "")


def test_what_fits(blockscaled_record: Record) -> None:
    kernel = blockscaled_record("k")
    ultra = blockscaled_record("ultra", arch="sm_103a", tile=[128, 128, 768], store="direct_256")
    quantising = blockscaled_record("q", d="nvfp4")

    def reason(record: KernelRecord, *shape: int, **fields: Any) -> str:
        return FAMILY.misfit(record, Problem(*shape, **fields)) or ""

    assert reason(kernel, 5, 8, 32) == reason(ultra, 5, 16, 32) == ""
    assert "a has 48 elements" in reason(kernel, 8, 8, 48)
    assert "d has 12 elements" in reason(kernel, 8, 12, 32)
    assert "d has 24 elements along its contiguous dimension, which is not a multiple of 16" in reason(
        ultra, 8, 24, 32
    )
    assert "d's rows begin at multiples of 8" in reason(ultra, 8, 16, 32, alignment=Alignment(d=8))
    assert "b's rows begin at multiples of 16" in reason(kernel, 8, 16, 32, alignment=Alignment(b=16))
    assert "it adds no C" in reason(kernel, 8, 8, 32, c=True)
    with_c = blockscaled_record("c", c="same")
    assert "c's rows" in reason(with_c, 8, 8, 32, c=True, alignment=Alignment(c=4))
    assert reason(with_c, 8, 8, 32, alignment=Alignment(c=4)) == ""
    assert "its d is nvfp4" in reason(quantising, 8, 32, 32)
    assert reason(quantising, 8, 32, 32, d="nvfp4") == ""
    assert "not a batch of 2" in reason(quantising, 8, 32, 32, batch=2, d="nvfp4")
    mixed = blockscaled_record("m", a="mxfp8", b="mxfp4")
    assert "b has 64 elements" in reason(mixed, 8, 8, 64, a="mxfp8", b="mxfp4")


def test_what_fits_on_hopper(blockscaled_record: Record) -> None:
    made = {"arch": "sm_90a", "cluster": [1, 1], "schedule": "cooperative", "swap_ab": True}
    kernel = blockscaled_record("k", a="mxfp8", b="mxfp8", tile=[64, 8, 128], **made)

    def reason(*shape: int, **fields: Any) -> str:
        return FAMILY.misfit(kernel, Problem(*shape, a="mxfp8", b="mxfp8", **fields)) or ""

    assert reason(16, 64, 96) == ""
    assert "not a multiple of 32" in reason(16, 64, 48)
    assert kernel.facts["alignment"] == {"a": 32, "b": 32, "c": 1, "d": 1}
    assert reason(8 * 65535, 64, 64) == ""
    assert "m needs 65536 thread blocks; at most 65535 are possible" in reason(8 * 65535 + 1, 64, 64)
    assert "n needs 65536" in reason(8, 64 * 65535 + 8, 64)
    assert "the batch needs 65536" in reason(8, 64, 64, batch=8192)


def test_a_kernel_that_adds_c_comes_after_one_that_does_not(blockscaled_record: Record) -> None:
    records = [blockscaled_record("a", c="same"), blockscaled_record("b")]
    ranked = FAMILY.rank(records, Problem(512, 512, 512), B200)
    assert ranked[0].record.name == "b"


def test_ultra_kernels_give_way_where_d_is_not_aligned(committed: Registry) -> None:
    records = committed.route("blockscaled_gemm", B300)

    def stores(**fields: Any) -> set[str]:
        asked = Problem(4096, 8192, 28672, **fields)
        return {record.config["store"] for record in FAMILY.fitting(records, asked)}

    assert {"tma", "direct_256"} <= stores()
    assert "tma" in stores(alignment=Alignment(d=8))
    assert "direct_256" not in stores(alignment=Alignment(d=8))
    text = FAMILY.explain(records, Problem(4096, 8200, 28672))
    assert "d has 8200 elements along its contiguous dimension, which is not a multiple of 16" in text
