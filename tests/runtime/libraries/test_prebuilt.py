"""Libraries that were built elsewhere: used without a compiler where their content fits, with reasons where
not."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from host_modules import HOST_ROWS, HOST_SCALE_COLUMNS_ROWS, HOST_TRANSPOSE_FP8_ROWS, write_module
from host_programs import FOLDER, host_compiler

from tilewright.compile import prebuilt
from tilewright.compile.building import build
from tilewright.compile.store import Store
from tilewright.context import Context
from tilewright.errors import CacheRefusedError, NotBuiltError
from tilewright.libraries.registry import Registry
from tilewright.tools import doctor
from tilewright_generator.cli.list import command as list_command

KERNEL, MODULE, FAMILY = "host_transpose_fp8", "transposes", "transpose_fp8"
NOBODY_COMPILES = {"PATH": "", "CXX": "/nonexistent/g++", "TILEWRIGHT_JIT": "0"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a library of the module of host kernels below `tmp_path/generated`; nothing else is built
    and nothing can be."""
    host_compiler()
    table = write_module(
        tmp_path / "generated", MODULE, FAMILY, HOST_TRANSPOSE_FP8_ROWS, "host_transpose_fp8_kernels.cc"
    )
    monkeypatch.setenv("TILEWRIGHT_TRUST_CACHE", "1")  # a checkout may be a folder that a group writes to
    build([table], store=Store(FOLDER / "cache"), destination=Store(tmp_path / "built")).raise_for_failures()
    monkeypatch.delenv("TILEWRIGHT_TRUST_CACHE")
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "no-cache"))
    for name, value in NOBODY_COMPILES.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "package").mkdir()
    shutil.copytree(tmp_path / "built/libraries", tmp_path / "package/libraries")
    return tmp_path / "package"


@pytest.fixture
def named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_LIBRARIES", str(folder))
    return folder


def registry(folder: Path) -> Registry:
    return Registry(folder.parent / "generated")


def description(folder: Path) -> Path:
    (path,) = folder.glob(f"libraries/{MODULE}/*/library.json")
    return path


def change(folder: Path, **fields: object) -> None:
    path = description(folder)
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def findings(folder: Path) -> list[doctor.Finding]:
    return [each for each in doctor.diagnose(Context(registry(folder))) if each.area == "libraries"]


def test_a_named_folder_serves_a_kernel(named: Path) -> None:
    kernels = registry(named)
    record = kernels.record(KERNEL)
    assert kernels.is_built(record)
    library = kernels.library(record)
    assert library.path == description(named).with_name(f"{MODULE}.so")
    assert library.kernels == {KERNEL}
    assert not (named.parent / "no-cache").exists()
    assert [path.name for path in named.iterdir()] == ["libraries"], "nothing is written there"
    said = f"{MODULE} in {named}: 1 of 1 kernels can be used"
    assert [(each.level, each.text) for each in findings(named)] == [(doctor.OK, said)]


def test_without_the_folder_it_is_not_built(folder: Path) -> None:
    kernels = registry(folder)
    with pytest.raises(NotBuiltError, match=f"{KERNEL} is not built"):
        kernels.library(kernels.record(KERNEL))


def test_a_registry_of_one_folder(folder: Path) -> None:
    kernels = Registry(folder.parent / "generated", libraries=prebuilt.only(folder))
    assert kernels.library(kernels.record(KERNEL)).kernels == {KERNEL}
    assert prebuilt.modules(folder) == [MODULE]


def another_machine(folder: Path) -> None:
    change(folder, machine="riscv64")


def another_format(folder: Path) -> None:
    change(folder, format=1)


def another_header(folder: Path) -> None:
    headers = json.loads(description(folder).read_text())["headers"]
    change(folder, headers=headers | {"tilewright/abi.h": "0" * 64, "tilewright/gone.h": "0" * 64})


def cut(folder: Path) -> None:
    library = description(folder).with_name(f"{MODULE}.so")
    library.write_bytes(library.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (another_machine, "it is for riscv64, this is "),
        (another_format, "format 1, this tilewright reads 2"),
        (another_header, "it was built with another version of the header tilewright/abi.h and 1 more"),
        (cut, f"{MODULE}.so is damaged: "),
    ],
)
def test_why_a_library_is_passed_over(named: Path, spoil: Callable[[Path], None], reason: str) -> None:
    spoil(named)
    kernels = registry(named)
    with pytest.raises(NotBuiltError) as caught:
        kernels.library(kernels.record(KERNEL))
    assert f"{description(named).parent}: " in str(caught.value)
    assert reason in str(caught.value)
    (actual,) = findings(named)
    assert actual.level == doctor.WARNING
    assert reason in actual.text
    assert f"tilewright wheel {MODULE}" in actual.mend


def test_a_list_says_what_is_built_and_what_is_passed_over(named: Path) -> None:
    words = ["--root", str(named.parent)]
    marked = CliRunner().invoke(list_command, words)
    assert f"  b---- {KERNEL}" in marked.stdout
    assert "passed over" not in marked.stdout
    another_machine(named)
    said = " ".join(CliRunner().invoke(list_command, words).stdout.split())
    assert f"----- {KERNEL}" in said
    assert f"passed over: {description(named).parent}: it is for riscv64" in said


def test_one_bit_of_a_library_that_nothing_remembers(named: Path) -> None:
    """It is read whole in each process: no digest of it is kept."""
    library = description(named).with_name(f"{MODULE}.so")
    data = bytearray(library.read_bytes())
    data[len(data) // 2] ^= 1
    library.write_bytes(data)
    kernels = registry(named)
    with pytest.raises(NotBuiltError, match="its content is not what was linked"):
        kernels.library(kernels.record(KERNEL))


def test_a_kernel_of_another_source(named: Path) -> None:
    path = named.parent / "generated" / MODULE / "table.json"
    sha256 = json.loads(path.read_text())["kernels"][0]["sha256"]
    path.write_text(path.read_text().replace(sha256, "0" * 64))
    kernels = registry(named)
    assert not kernels.is_built(kernels.record(KERNEL))
    used, stale = findings(named)
    assert used.text.endswith("0 of 1 kernels can be used")
    assert stale.text.endswith(f"built from another source than the tables list: {KERNEL}")


def test_a_module_that_no_set_has(named: Path, tmp_path: Path) -> None:
    write_module(
        tmp_path / "others", "columns", "scale_columns", HOST_SCALE_COLUMNS_ROWS,
        "host_scale_columns_kernels.cc",
    )  # fmt: skip
    context = Context(Registry(tmp_path / "others"))
    said = [each.text for each in doctor.diagnose(context) if each.area == "libraries"]
    where = f"{MODULE} in {named}"
    assert said == [f"{where}: 0 of 1 kernels can be used", f"{where}: in no table: {KERNEL}"]


def test_a_folder_in_which_everybody_may_write(named: Path) -> None:
    library = description(named).with_name(f"{MODULE}.so")
    library.chmod(library.stat().st_mode | stat.S_IWOTH)
    kernels = registry(named)
    with pytest.raises(CacheRefusedError, match=f"the built libraries in {named} are not safe"):
        kernels.library(kernels.record(KERNEL))
    assert findings(named)[-1].level == doctor.PROBLEM


def test_a_destination_has_the_selected_kernels_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host_compiler()
    monkeypatch.setenv("TILEWRIGHT_TRUST_CACHE", "1")
    table = write_module(tmp_path / "generated", "products", "gemm", HOST_ROWS[:2], "host_kernels.cc")
    store, destination = Store(FOLDER / "cache"), Store(tmp_path / "built")
    build([table], store=store).raise_for_failures()
    report = build([table], ["host_bf16_tn"], store=store, destination=destination)
    (library,) = report.libraries
    assert library.path.is_relative_to(destination.root)
    assert set(library.kernels) == {"host_bf16_tn"}
    (usable,) = prebuilt.only(destination.root)("products")
    assert usable == library
