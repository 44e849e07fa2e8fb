"""Which block-scaled kernels serve which GPU and problem, on described GPUs: with rows made here, and with
the tables that are committed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tilewright.architectures.device import (
    B200,
    B300,
    DESCRIBED,
    GB10,
    H200,
    RTX_PRO_6000,
    THOR,
    DeviceProperties,
)
from tilewright.declarations.matrix_tactic import MATRIX_TACTIC
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, rearranged
from tilewright.errors import ArgumentError, UnsupportedDeviceError
from tilewright.families.blockscaled_gemm.family import FAMILY
from tilewright.families.blockscaled_gemm.problem import Alignment, Problem
from tilewright.libraries.registry import Registry
from tilewright.selection.choice import choose

Record = Callable[..., KernelRecord]
FUTURE = RTX_PRO_6000._replace(name="a 12.2", capability=(12, 2))
UNKNOWN = B200._replace(name="a 13.0", capability=(13, 0))


def of(registry: Registry, device: DeviceProperties) -> set[str]:
    return {record.arch for record in registry.route("blockscaled_gemm", device)}


def test_the_committed_kernels_of_each_gpu(committed: Registry) -> None:
    assert of(committed, H200) == {"sm_90a"}
    assert of(committed, B200) == {"sm_100f"}
    assert of(committed, B300) == {"sm_100f", "sm_103a"}
    for device in (RTX_PRO_6000, GB10, FUTURE):
        assert of(committed, device) == {"sm_120f"}
    assert of(committed, THOR) == {"sm_110a"}
    with pytest.raises(
        UnsupportedDeviceError, match=r"compute capability 13\.0 .*there are kernels for:"
    ) as caught:
        of(committed, UNKNOWN)
    assert "know no target of this GPU" in str(caught.value)


@pytest.mark.parametrize(
    ("archs", "device", "found"),
    [
        (["sm_100a"], B200, ["sm_100a"]),
        (["sm_100a"], B300, None),  # architecture-specific: nowhere else, even in the family
        (["sm_100f"], B300, ["sm_100f"]),
        (["sm_100a", "sm_100f", "sm_103a"], B300, ["sm_100f", "sm_103a"]),
        (["sm_103a"], B200, None),
        (["sm_100f", "sm_103a"], THOR, None),
        (["sm_110a"], THOR, ["sm_110a"]),
        (["sm_120a"], GB10, None),
        (["sm_120f"], GB10, ["sm_120f"]),
        (["sm_121a", "sm_120f"], RTX_PRO_6000, ["sm_120f"]),
        (["sm_120f", "sm_121a"], FUTURE, ["sm_120f"]),
        (["sm_90a"], H200, ["sm_90a"]),
        (["sm_90a"], B200, None),
        (["sm_90a", "sm_100f", "sm_120f"], UNKNOWN, None),
    ],
)
def test_routing(  # noqa: PLR0917 (as many parameters as a case has)
    tmp_path: Path,
    table: Any,
    blockscaled_row: Any,
    archs: list[str],
    device: DeviceProperties,
    found: list[str] | None,
) -> None:
    rows = [blockscaled_row(f"kernel_{arch}", arch=arch) for arch in archs]
    table(tmp_path, "module", rows, "blockscaled_gemm")
    registry = Registry(tmp_path, libraries=lambda module: [])
    if found is None:
        with pytest.raises(UnsupportedDeviceError, match=f"no blockscaled_gemm kernel runs on {device.name}"):
            of(registry, device)
    else:
        assert sorted(of(registry, device)) == found


def test_every_gpu_has_a_kernel_for_every_format(committed: Registry) -> None:
    pairs = [
        ("nvfp4", "nvfp4"),
        ("mxfp4", "mxfp4"),
        ("mxfp8", "mxfp8"),
        ("mxfp8", "mxfp4"),
        ("mxfp4", "mxfp8"),
    ]
    for device in (H200, B200, B300, RTX_PRO_6000, GB10):
        records = committed.route("blockscaled_gemm", device)
        for a, b in pairs:
            for m in (1, 48, 4096):
                asked = Problem(m, 4096, 7168, a=a, b=b)
                first, *_ = FAMILY.rank(records, asked, device)
                assert FAMILY.misfit_tactic(first.tactic, first.record, asked) is None


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
        return {(one.cluster, one.fallback) for one in every}

    assert of() == {("1x1", ""), ("1x2", "1x1"), ("1x4", "1x1")}
    assert of(schedule="2sm") == {
        ("2x1", ""), *((shape, "2x1") for shape in ("2x2", "2x4", "4x1", "4x2", "4x4")),
    }  # fmt: skip
    assert of(cluster=[2, 1]) == {("", "")}
    assert of(cluster=[1, 1], scheduler="stream_k") == {("", "")}
    given = MATRIX_TACTIC.values(Tactic.parse("k@cluster=4x2,fallback=2x1,swizzle=2"), 148)
    assert tuple(given.values()) == (0, 2, 0, 1, 0, 4, 2, 2, 1, 148)
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


def test_a_bias_and_an_activation_on_sm_12x(committed: Registry) -> None:
    """Every lean kernel has a bias; those that activate serve no call without an activation."""
    records = committed.route("blockscaled_gemm", RTX_PRO_6000)
    for fields in ({}, {"d": "f16"}, {"a": "mxfp4", "b": "mxfp4"}, {"a": "mxfp8", "b": "mxfp4"}):
        for m in (4, 2048):
            problem = Problem(m, 4096, 4096, **fields)
            plain, biased, activated = (
                choose(FAMILY, committed, records, one, RTX_PRO_6000)[0].kernel
                for one in (
                    replace(problem, c=True),
                    replace(problem, c=True, bias=True),
                    replace(problem, bias=True, activation="gelu"),
                )
            )
            assert "_mma_" in biased
            assert not biased.endswith("_act")
            assert activated.endswith("_act")
            assert not plain.endswith("_act")
            record = committed.record(activated)
            assert FAMILY.does_extra_work(record, replace(problem, bias=True))
            assert not FAMILY.does_extra_work(record, replace(problem, activation="relu"))


def test_a_bias_and_an_activation_in_cute_dsl(committed: Registry) -> None:
    """Every kernel in CuTe-DSL has a bias; those that activate serve no call without an activation."""
    records = committed.route("blockscaled_gemm", B200)
    for fields in ({}, {"d": "f16"}, {"a": "mxfp4", "b": "mxfp4"}, {"a": "mxfp8", "b": "mxfp8"}):
        problem = Problem(8, 5120, 25600, **fields)
        plain, biased, activated = (
            choose(FAMILY, committed, records, one, B200)[0].kernel
            for one in (
                problem,
                replace(problem, c=True, bias=True),
                replace(problem, bias=True, activation="silu"),
            )
        )
        assert "_tcgen05_" in plain
        assert plain == biased
        assert activated.endswith("_tcgen05_1sm_swap_act")
        assert FAMILY.does_extra_work(committed.record(activated), replace(problem, bias=True))
        assert not FAMILY.does_extra_work(committed.record(plain), problem)


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


def test_a_demanded_kernel_of_another_gpu(committed: Registry) -> None:
    records = committed.route("blockscaled_gemm", B200)
    ultra = next(
        record.name
        for record in committed.kernels("blockscaled_gemm")
        if record.arch == "sm_103a" and record.config["a"] == "nvfp4"
    )
    with pytest.raises(ArgumentError, match="compiled for sm_103a, which does not run on NVIDIA B200"):
        choose(FAMILY, committed, records, Problem(512, 512, 768), B200, tactic=Tactic(ultra))


@pytest.mark.parametrize("device", DESCRIBED.values(), ids=DESCRIBED.keys())
@pytest.mark.parametrize("shape", [(1, 128, 512), (32, 5120, 25600), (2048, 8192, 28672), (8192, 8192, 8192)])
def test_estimates_are_possible(
    committed: Registry, device: DeviceProperties, shape: tuple[int, int, int]
) -> None:
    asked = Problem(*shape)
    ranked = FAMILY.rank(committed.route("blockscaled_gemm", device), asked, device)
    assert ranked
    for candidate in ranked:
        seconds = candidate.estimate.seconds
        assert seconds > asked.bytes / device.memory_bandwidth / 4  # what L2 held would come faster
        assert asked.flops / seconds < 20e15
        assert 1e-6 < seconds < 10


def test_tactics_of_every_committed_kernel_fit_it(committed: Registry) -> None:
    for record in committed.kernels("blockscaled_gemm"):
        config = record.config
        asked = Problem(512, 512, 1536, a=config["a"], b=config["b"], d=config["d"])
        for base in FAMILY.candidates(record, asked, H200):
            for tactic in rearranged(base):
                assert FAMILY.misfit_tactic(tactic, record, asked) is None


def test_selecting_needs_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import tilewright; assert not hasattr(tilewright, 'mm_nothing')\n"
        "assert tilewright.scale_factors.padded_shape(1, 32, 16) == (128, 4)\n"
        "from tilewright.families.blockscaled_gemm.family import FAMILY\n"
        "from tilewright.libraries.registry import Registry\n"
        "from tilewright.families.blockscaled_gemm.problem import Problem\n"
        "from tilewright.architectures.device import B200\n"
        "registry = Registry(libraries=lambda module: [])\n"
        "records = registry.route('blockscaled_gemm', B200)\n"
        "from tilewright.selection.choice import choose\n"
        "print(choose(FAMILY, registry, records, Problem(512, 4096, 4096), B200)[0].kernel)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.startswith("blockscaled_gemm_sm100f_nvfp4_nvfp4_bf16"), run.stderr


def test_a_kernel_for_newer_headers_counts_only_where_there_are_such_headers(
    committed: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def chosen(release: str) -> KernelRecord:
        major, minor = release.split(".")
        folder = tmp_path / release / "cutlass"
        folder.mkdir(parents=True)
        (folder / "cutlass.h").touch()
        (folder / "version.h").write_text(
            f"#define CUTLASS_MAJOR {major}\n#define CUTLASS_MINOR {minor}\n#define CUTLASS_PATCH 0\n"
        )
        monkeypatch.setenv("CUTLASS_PATH", str(folder.parent))
        routed = committed.route("blockscaled_gemm", RTX_PRO_6000)
        records = [record for record in routed if record.config["mainloop"] == "default"]
        return choose(FAMILY, committed, records, Problem(32, 5120, 25600), RTX_PRO_6000)[1]

    assert chosen("4.2").cutlass == ""
    assert chosen("4.5").cutlass == "4.5"
