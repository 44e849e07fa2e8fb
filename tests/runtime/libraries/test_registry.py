from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilewright.architectures.device import H200
from tilewright.declarations import catalog, table
from tilewright.errors import (
    NoKernelError,
    NotBuiltError,
    TableError,
    UnsupportedDeviceError,
)
from tilewright.libraries.registry import Registry


@pytest.fixture
def generated(tmp_path: Path, row, table) -> Path:
    table(tmp_path, "sm90_x", [row("one"), row("two"), row("three")])
    table(tmp_path, "sm120_x", [row("four", arch="sm_120f")])
    table(tmp_path, "other", [row("five")], family="quantize")
    return tmp_path


def test_kernels_of_a_family(generated: Path) -> None:
    registry = Registry(generated, libraries=lambda module: [])
    assert [record.name for record in registry.kernels("gemm")] == ["four", "one", "two", "three"]
    assert registry.table_of("five").module == "other"


@pytest.mark.parametrize(
    ("capability", "names"), [((9, 0), ["one", "two", "three"]), ((12, 0), ["four"]), ((12, 1), ["four"])]
)
def test_routes_by_family(generated: Path, capability: tuple[int, int], names: list[str]) -> None:
    registry = Registry(generated, libraries=lambda module: [])
    device = H200._replace(capability=capability)
    assert [record.name for record in registry.route("gemm", device)] == names


def test_a_gpu_without_kernels(generated: Path, built) -> None:
    registry = Registry(generated, libraries=lambda module: [built(Path("x.so"), lacking=("two",))])
    a100 = H200._replace(name="NVIDIA A100", capability=(8, 0))
    with pytest.raises(UnsupportedDeviceError) as caught:
        registry.route("gemm", a100)
    text = str(caught.value)
    assert "no gemm kernel runs on NVIDIA A100, compute capability 8.0 (sm_80" in text
    assert "sm_90a (3 kernels, 2 built)" in text
    assert "sm_120f (1 kernels, 1 built)" in text
    assert (
        "The rules of gemm know no target of this GPU (they know sm_90a, sm_100a, sm_100f, sm_103a, sm_107a, "
        "sm_110a, sm_110f, sm_120a, sm_120f, sm_121a)" in text
    )
    assert "arch: sm_" not in text


@pytest.fixture
def two_sets(generated: Path, tmp_path: Path, row, table) -> list[Path]:
    """Beside `generated` a set with its module sm90_x: a kernel of its own, one that is equal, and one that
    has the same name and another source."""
    own = tmp_path / "own"
    table(own, "sm90_x", [row("theirs"), row("one"), {**row("two"), "sha256": "another"}])
    return [own, generated]


def test_kernels_of_two_sets(two_sets: list[Path]) -> None:
    registry = Registry(two_sets, libraries=lambda module: [])
    assert [record.name for record in registry.kernels("gemm")] == ["theirs", "one", "two", "four", "three"]
    assert registry.record("two").sha256 == "another"
    assert [*registry.tables] == ["sm90_x", "other", "sm120_x", f"{two_sets[1]}:sm90_x"]
    homes = {name: registry.set_of(registry.table_of(name)) for name in ("one", "three", "five")}
    assert homes == {"one": str(two_sets[0]), "three": str(two_sets[1]), "five": str(two_sets[1])}
    names = [record.name for record in registry.route("gemm", H200)]
    assert names == ["theirs", "one", "two", "three"]


def test_the_first_set_counts(two_sets: list[Path]) -> None:
    own, generated = map(str, two_sets)
    assert [*Registry(two_sets).shadowed()] == [("two", own, generated)]
    turned_round = Registry(two_sets[::-1], libraries=lambda module: [])
    assert turned_round.record("two").sha256 != "another"
    assert [*turned_round.shadowed()] == [("two", generated, own)]
    assert turned_round.record("theirs").name == "theirs"


def test_a_library_of_either_set(two_sets: list[Path], built) -> None:
    """Modules of one name have libraries of one name: each kernel is looked up in all of them."""
    registry = Registry(two_sets, libraries=lambda module: [built(Path(f"{module}.so"))])
    assert registry.is_built(registry.record("three"))
    assert not registry.is_built(registry.record("two")), "its source is another than the library's"


def test_no_set_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_GENERATED", "only")
    with pytest.raises(TableError, match="TILEWRIGHT_GENERATED=only names no kernels"):
        Registry().kernels("gemm")


def test_a_kernel_that_two_modules_list_is_of_the_first(generated: Path, row, table) -> None:
    table(generated, "sm90_y", [row("two", tile=[64, 64, 64]), row("six")])
    registry = Registry(generated, libraries=lambda module: [])
    names = ["one", "two", "three", "six"]
    assert [record.name for record in registry.kernels("gemm") if record.arch == "sm_90a"] == names
    assert [record.name for record in registry.runnable("gemm", (9, 0))] == names
    assert registry.table_of("two").module == "sm90_x"


def test_toolchains_are_of_the_newest_library(generated: Path) -> None:
    registry = Registry(
        generated,
        libraries=lambda module: [
            SimpleNamespace(path=Path(release), toolchain={"nvcc": release}) for release in ("new", "old")
        ],
    )
    assert list(registry.toolchains("gemm", (9, 0))) == [(3, {"nvcc": "new"})]


def test_toolchains_are_of_modules_with_kernels_of_the_gpu(generated: Path) -> None:
    registry = Registry(
        generated,
        libraries=lambda module: [SimpleNamespace(path=Path(module), toolchain={"nvcc": module})],
    )
    assert list(registry.toolchains("gemm", (9, 0))) == [(3, {"nvcc": "sm90_x"})]


def test_a_path_may_be_text(generated: Path) -> None:
    assert len(Registry(str(generated)).kernels("gemm")) == 4


def test_a_folder_without_modules_is_no_empty_list(generated: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for folder, said in ((tmp_path / "nowhere", "is no folder"), (project, "holds no module")):
        registry = Registry(folder)
        for ask in (lambda one: one.kernels("gemm"), lambda one: one.route("gemm", H200)):
            with pytest.raises(TableError, match=f"{folder} {said}") as caught:
                ask(registry)
            assert "tilewright generate" in str(caught.value.hint)
    (project / "generated").symlink_to(generated)
    with pytest.raises(TableError, match=f"Did you mean {project}/generated"):
        Registry(project).kernels("gemm")


def test_a_module_that_has_lost_its_table_is_told(
    generated: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its kernels would be passed over, and a call run another, maybe far slower one."""
    project = tmp_path / "project"
    project.mkdir()
    for module in generated.iterdir():
        (project / module.name).symlink_to(module)
    (project / "lost").mkdir()
    (project / "lost" / "manifest.txt").touch()
    Registry(project).kernels("gemm")
    assert [record.getMessage() for record in caplog.records] == [
        f"{project}/lost has no table.json: its kernels are passed over (tilewright generate)"
    ]


def test_an_unknown_family_is_no_empty_list(generated: Path) -> None:
    registry = Registry(generated, libraries=lambda module: [])
    with pytest.raises(NoKernelError, match="no family named gem\nDid you mean gemm"):
        registry.kernels("gem")
    families = ", ".join(catalog.names())
    assert "blockscaled_gemm, blockscaled_grouped_gemm, gemm, " in families
    with pytest.raises(NoKernelError, match=rf"There are {families}\."):
        registry.route("convolution", H200)
    assert registry.kernels("blockscaled_gemm") == []  # which there is, and of which these tables have none


def test_an_unknown_name(generated: Path) -> None:
    with pytest.raises(NoKernelError, match="Did you mean three"):
        Registry(generated, libraries=lambda module: []).record("tree")


def test_a_stale_kernel_is_not_built(generated: Path, monkeypatch: pytest.MonkeyPatch, row) -> None:
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    old = {"one": "sha of one", "two": "of an older source"}
    library = SimpleNamespace(path=Path("x.so"), holds=lambda record: old.get(record.name) == record.sha256)
    registry = Registry(generated, libraries=lambda module: [library] if module == "sm90_x" else [])
    assert registry.is_built(registry.record("one"))
    assert not registry.is_built(registry.record("two"))
    with pytest.raises(NotBuiltError, match="another source") as caught:
        registry.library(registry.record("two"))
    assert "tilewright build --filter two" in str(caught.value)


def test_importing_is_light() -> None:
    """Nothing beyond the standard library. How long it takes, benchmarks/host/selection.py says."""
    code = (
        "import sys; before = set(sys.modules); import tilewright; tilewright.Registry\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*(new - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["tilewright"]


@pytest.mark.parametrize(
    "text",
    [
        "sm_90a",
        "sm_100f",
        "sm_80",
        "sm_9a",
        "sm_1200a",
        "sm_90af",
        "sm_9oa",
        "sm_",
        "sm_\u0669\u0660a",
        "m_90a",
        "sx_90a",
        "",
    ],
)
def test_a_target_is_told_as_the_schema_of_tables_tells_it(text: str) -> None:
    assert table._is_target(text) == bool(re.fullmatch(table._TARGET, text, re.ASCII))
