"""What kernels ask of CUDA when they are launched, without a GPU: compiled objects, linked with a CUDA
runtime that answers as it is told (`launching.cc`)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from compiled_kernels import CUTLASS, GENERATED, HOPPER, LEAN, Compiled

from tilewright import paths
from tilewright.build.building import build
from tilewright.build.store import Store
from tilewright.build.toolchain import find_toolchain
from tilewright.table import Table

pytestmark = [pytest.mark.compile, pytest.mark.timeout(1800)]

SMS, SHARED, RESERVED, MOST = 132, 233472, 1024, 232448  # of an H200, as launching.cc says
QUANTIZE = "quantize_sm90_nvfp4_bf16_vector"
INVALID_VALUE, INSUFFICIENT_DRIVER, UNAVAILABLE, OUT_OF_RESOURCES = 1, 35, 46, 701
NOT_SUPPORTED = -1

Case = dict[str, int]
Launch = Callable[..., dict[str, list[Case]]]


@pytest.fixture(scope="module")
def quantize_object() -> Path:
    table, store = Table.read(GENERATED / "quantize" / "table.json"), Store()
    report = build([table], frozenset([QUANTIZE]), store=store)
    report.raise_for_failures()
    entry = store.entry(report.to_json()["kernels"][0]["key"])
    assert entry is not None
    return Path(entry.object)


@pytest.fixture(scope="module")
def launch(
    compiled: dict[str, Compiled], quantize_object: Path, tmp_path_factory: pytest.TempPathFactory
) -> Launch:
    """Runs a kernel's cases, and problems (m, n, k, splits) of one's own; what was seen, by the case."""
    toolchain, folder = find_toolchain(), tmp_path_factory.mktemp("launching")
    programs: dict[str, Path] = {}

    def program(name: str) -> Path:
        if name not in programs:
            family = next(word for word in ("blockscaled_gemm", "gemm", "quantize") if name.startswith(word))
            object_file = quantize_object if name == QUANTIZE else compiled[name].object
            programs[name] = folder / name
            command = [
                *toolchain.host, "-std=c++17", f"-DKERNEL=tilewright_{name}", f"-DFAMILY={family}",
                f"-I{paths.include_dir()}", f"-isystem{toolchain.include}",
                *(['-DHOST="tilewright/gemm/lean_host.hpp"'] if name == LEAN else []),
                str(Path(__file__).with_name("launching.cc")), str(object_file), "-o", str(programs[name]),
            ]  # fmt: skip
            subprocess.run(command, check=True)
        return programs[name]

    def run(name: str, *problems: tuple[int, int, int, int]) -> dict[str, list[Case]]:
        words = [str(number) for problem in problems for number in problem]
        done = subprocess.run([str(program(name)), *words], capture_output=True, text=True, check=True)
        found: dict[str, list[Case]] = {}
        for line in done.stdout.splitlines():
            case, *facts = line.split()
            found.setdefault(case, []).append(
                {key: int(value) for key, value in (fact.split("=") for fact in facts)}
            )
        return found

    return run


@pytest.fixture(params=[HOPPER, CUTLASS, LEAN, QUANTIZE])
def cases(request: pytest.FixtureRequest, launch: Launch) -> dict[str, Case]:
    return {name: rows[0] for name, rows in launch(request.param).items()}


def test_a_failed_launch_leaves_no_error_behind(cases: dict[str, Case]) -> None:
    """The next check of an innocent kernel would find it."""
    assert all(case["left"] == 0 for case in cases.values()), cases
    failed = {name: case["status"] for name, case in cases.items() if case["status"] != 0}
    assert failed.pop("map_refused", INVALID_VALUE) == INVALID_VALUE
    assert failed == {
        "no_driver": INSUFFICIENT_DRIVER,
        "attribute_refused": INVALID_VALUE,
        "no_context_to_be_had": UNAVAILABLE,
        "launch_refused": OUT_OF_RESOURCES,
        "impossible": NOT_SUPPORTED,
    }


def test_nothing_is_launched_but_what_can_run(cases: dict[str, Case]) -> None:
    """Not what `can_implement` refuses, and not on a tensor map that the driver refused."""
    launched = {name for name, case in cases.items() if case["launched"]}
    assert launched - {"map_refused"} == {
        "first", "again", "no_context", "another_context", "launch_refused", "after_map_refused",
    }  # fmt: skip
    with_maps = cases["first"]["encoded"] > 0
    assert ("map_refused" in launched) == (not with_maps)
    assert cases["impossible"]["encoded"] == 0


def test_a_context_is_bound_only_where_none_is_current(cases: dict[str, Case]) -> None:
    """The one that is current, also one that is not the device's own, stays."""
    assert {name for name, case in cases.items() if case["bound"]} == {"no_context", "no_context_to_be_had"}
    assert all(case["homeless"] == 0 for case in cases.values()), "a tensor map was encoded without a context"


def test_a_context_is_asked_once_to_allow_a_kernel_its_shared_memory(cases: dict[str, Case]) -> None:
    asked = {name for name, case in cases.items() if case["allowed"]}
    # A refusal is not remembered; `launch_refused` is back in the first context, which has been asked.
    assert asked == {"attribute_refused", "first", "another_context"}
    assert all(case["unknown"] == 0 for case in cases.values()), "the kernel of another context was launched"
    assert all(cases["first"]["most"] >= case["smem"] for case in cases.values())


def fit(smem: int) -> int:
    """Thread blocks with so much dynamic shared memory that an SM holds."""
    return SHARED // (smem + RESERVED)


@pytest.mark.parametrize("splits", [1, 2, 4, 8])
def test_a_grid_is_spread_over_the_sms(launch: Launch, splits: int) -> None:
    """An SM takes no more thread blocks than it gets when all SMs, or what clusters can cover, are used."""
    covered = {1: SMS, 2: SMS, 4: 128, 8: 128}[splits]  # at one thread block an SM
    columns = [128, 128 * covered // splits, 128 * (covered // splits + 1), 128 * (3 * covered // splits)]
    problems = [(16, n, 4096, splits) for n in columns]
    rows = launch(HOPPER, *problems)["problem"]
    own = launch(HOPPER)["first"][0]
    at_most = fit(min(row["smem"] for row in rows))
    assert at_most >= 2  # else this shows nothing
    for row in rows:
        share = -(-row["blocks"] // covered)
        assert row["status"] == 0
        assert row["cluster"] == splits
        assert row["smem"] <= MOST
        assert fit(row["smem"]) == min(share, at_most), row
    assert rows[0]["blocks"] < covered
    assert own["pdl"] == 1


def test_kernels_whose_thread_blocks_share_sms_by_design_ask_for_no_more(launch: Launch) -> None:
    table = Table.read(GENERATED / "quantize" / "table.json")
    rows = launch(QUANTIZE, (16, 0, 4096, 1), (128, 0, 14336, 1))["problem"]
    assert {row["smem"] for row in rows} == {table[QUANTIZE].facts["smem_bytes"]}
