"""Which block-scaled kernels serve which GPU and problem, on described GPUs: with rows made here, and with
the tables that are committed."""

from __future__ import annotations

import subprocess
import sys
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
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic, rearranged
from tilewright.errors import ArgumentError, UnsupportedDeviceError
from tilewright.families.blockscaled_gemm.family import FAMILY
from tilewright.families.blockscaled_gemm.mainloops import IN_CUTE_DSL
from tilewright.families.blockscaled_gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection.choice import choose

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


def test_a_bias_and_an_activation_on_sm_12x(committed: Registry) -> None:
    """Every lean kernel has a bias; those that activate serve no call without an activation."""
    records = committed.route("blockscaled_gemm", RTX_PRO_6000)
    for fields in ({}, {"d": "f16"}, {"a": "mxfp4", "b": "mxfp4"}, {"a": "mxfp8", "b": "mxfp4"}):
        for m in (4, 2048):
            problem = Problem(m, 4096, 4096, **fields)
            plain, biased, activated = (
                choose(FAMILY, committed, records, variant, RTX_PRO_6000)[0].kernel
                for variant in (
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
            choose(FAMILY, committed, records, variant, B200)[0].kernel
            for variant in (
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


def test_narrow_tiles_in_cute_dsl_have_all_rows(committed: Registry) -> None:
    """Selection takes the narrowest tile of 8 to 32 columns that has all rows, and loses no wider tile."""
    records = committed.route("blockscaled_gemm", B200)
    types: list[dict[str, Any]] = [{}, {"a": "mxfp4", "b": "mxfp4", "d": "f16"}, {"a": "mxfp8", "b": "mxfp8"}]
    for fields in types:
        for m, columns in ((1, 8), (8, 8), (9, 16), (16, 16), (17, 32), (32, 32), (33, 64)):
            kernel = choose(FAMILY, committed, records, Problem(m, 7168, 4608, **fields), B200)[0].kernel
            assert committed.record(kernel).config["tile"][1] == columns
    narrow = committed.record("blockscaled_gemm_sm100f_nvfp4_nvfp4_bf16_128x8x256_1x1_tcgen05_1sm_swap")
    reason = IN_CUTE_DSL.misfit_extents(narrow, Problem(9, 7168, 4608))
    assert reason == "its tile has 8 columns, for at most as many rows of A, not 9"


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
        rows = 8 if config.get("mainloop") == "tcgen05" and config["swap_ab"] else 512
        asked = Problem(rows, 512, 1536, a=config["a"], b=config["b"], d=config["d"])
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
