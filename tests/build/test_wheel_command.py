"""`tilewright wheel`: its content, its bytes and its platform."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from host_programs import host_compiler
from small_modules import HEAD, TAIL, Mini

from tilewright import __version__
from tilewright.compile import prebuilt
from tilewright.compile.keys import file_sha256
from tilewright.declarations.table import Table
from tilewright.errors import BuildError
from tilewright_generator import cli
from tilewright_generator.cli.wheel import command
from tilewright_generator.errors import UsageError
from tilewright_generator.packaging import elf
from tilewright_generator.packaging.wheel_file import Wheel

HOST = (HEAD + TAIL).replace("#include <cuda_runtime.h>\n", "").replace("cudaSuccess", "0")
MACHINE = os.uname().machine


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of two kernels for the host, and one of a kernel; a tuned file, and files of no concern."""
    host_compiler()
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    root = tmp_path / "acme.project"
    (root / "specs").mkdir(parents=True)
    alpha, beta = (Mini(root / "generated", name) for name in ("alpha", "beta"))
    for mini, name, arch in ((alpha, "one", "sm_90a"), (alpha, "two", "sm_100a"), (beta, "three", "sm_90a")):
        mini.add_source(name, HOST.format(name=name, number=7), ".cpp", arch=arch, compiler="host")
    alpha.table(), beta.table()
    (root / "generated/alpha/manifest.txt").write_text("")
    (root / "generated/alpha/.lock").write_text("")
    (root / "generated/.tilewright.lock").write_text("")
    (root / "generated/alpha/link.cpp").symlink_to("/etc/hostname")
    (root / "tuned/nvidia_h200").mkdir(parents=True)
    (root / "tuned/nvidia_h200/mini.json").write_text("{}")
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    return root


def run(project: Path, *words: Any) -> Result:
    return CliRunner().invoke(command, [*map(str, words), "--root", str(project)])


def entries(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_what_a_wheel_holds(project: Path, tmp_path: Path) -> None:
    result = run(project, "alpha", "--arch", "sm_90a")
    assert result.exit_code == 0, result.output
    (path,) = (tmp_path / "out").iterdir()
    platform = rf"(?:manylinux_2_\d+|linux)_{MACHINE}"
    assert re.fullmatch(rf"acme_project_kernels-{__version__}-py3-none-{platform}\.whl", path.name)
    assert "alpha: 1 kernel\n" in result.stdout
    assert f"{path.name}: " in result.stdout
    held = entries(path)
    home, info = "tilewright_kernels/acme_project_kernels", f"acme_project_kernels-{__version__}.dist-info"
    (library,) = (name for name in held if name.endswith(".so"))
    key = Path(library).parent.name
    assert {*held} == {
        f"{home}/libraries/alpha/{key}/alpha.so", f"{home}/libraries/alpha/{key}/library.json",
        *(f"{home}/generated/alpha/{name}"
          for name in ("one.cpp", "two.cpp", "table.json", "table.cc", "manifest.txt")),
        f"{home}/tuned/nvidia_h200/mini.json",
        f"{info}/METADATA", f"{info}/WHEEL", f"{info}/RECORD",
    }  # fmt: skip
    assert set(json.loads(held[f"{home}/libraries/alpha/{key}/library.json"])["kernels"]) == {"one"}
    metadata = held[f"{info}/METADATA"].decode()
    assert f"Name: acme.project-kernels\nVersion: {__version__}\n" in metadata
    assert "\nRequires-Dist: tilewright\n" in metadata
    for name, digest, size in csv.reader(held[f"{info}/RECORD"].decode().splitlines()):
        if name != f"{info}/RECORD":
            sha256 = base64.urlsafe_b64encode(hashlib.sha256(held[name]).digest()).decode().rstrip("=")
            assert (digest, int(size)) == (f"sha256={sha256}", len(held[name]))


def test_unpacked_it_is_found(project: Path, tmp_path: Path) -> None:
    assert run(project, "alpha", "beta", "--name", "zinc", "--version", "v3.1").exit_code == 0
    (path,) = (tmp_path / "out").iterdir()
    assert path.name.startswith("zinc-3.1-py3-none-")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "site")
    home = tmp_path / "site/tilewright_kernels/zinc"
    assert prebuilt.modules(home) == ["alpha", "beta"]
    finder, table = prebuilt.only(home), Table.read(home / "generated/alpha/table.json")
    (library,) = finder("alpha")
    assert all(library.holds(record) for record in table.values())
    assert file_sha256(table.source(table["one"])) == table["one"].sha256


def test_the_same_bytes_from_another_folder(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "elsewhere" / project.name
    shutil.copytree(project, copy, symlinks=True)
    contents = []
    for number, root in enumerate((project, copy)):
        monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / f"cache{number}"))
        (tmp_path / f"out{number}").mkdir()
        assert run(root, "alpha", "-o", tmp_path / f"out{number}").exit_code == 0
        (path,) = (tmp_path / f"out{number}").iterdir()
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert run(project, "alpha", "-o", tmp_path / "out0").exit_code == 0
    with zipfile.ZipFile(next((tmp_path / "out0").iterdir())) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(2023, 11, 14, 22, 13, 20)}


@pytest.mark.parametrize(("given", "year"), [("", 1980), ("99999999999", 2107)])
def test_a_time_that_no_entry_can_have(given: str, year: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", given)
    with zipfile.ZipFile(io.BytesIO(Wheel("one", "1", "any", "", (), {}).content())) as archive:
        assert {entry.date_time[0] for entry in archive.infolist()} == {year}


@pytest.mark.parametrize("given", ["abc", "-1", "1e9", "1" * 5000])
def test_a_time_that_is_none(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", given)
    with pytest.raises(UsageError, match="SOURCE_DATE_EPOCH: expected seconds since 1970"):
        Wheel("one", "1", "any", "", (), {}).content()


def test_the_folder_is_created(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "wheels"
    assert run(project, "alpha", "--arch", "sm_90a", "-o", folder).exit_code == 0
    assert [path.suffix for path in folder.iterdir()] == [".whl"]


def test_a_kernel_that_does_not_compile(project: Path, tmp_path: Path) -> None:
    Mini(project / "generated", "gamma").add_source("four", "#error no\n", ".cpp", compiler="host").table()
    result = run(project, "gamma")
    assert result.exit_code == 1
    assert "error" in result.stderr
    assert not [*(tmp_path / "out").iterdir()]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["alhpa"], "did you mean 'alpha'"),
        (["alpha", "--arch", "sm_120f"], "no kernel meets --filter arch=sm_120f"),
        (["alpha", "--name", "../x"], "--name '../x': expected letters"),
        (["alpha", "--version", "next"], "--version 'next': expected a version as pip reads it, such as 1.2"),
        ([], "Missing argument 'MODULE...'"),
    ],
)
def test_usage(project: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["wheel", "--root", str(project), *words]) == 2
    assert said in capsys.readouterr().err


def test_versions_that_a_library_needs(project: Path, tmp_path: Path) -> None:
    source = tmp_path / "needs.cc"
    source.write_text("#include <string>\n#include <cmath>\n"
                      "std::string f(double x) { return std::to_string(std::exp(x)); }\n")  # fmt: skip
    library = tmp_path / "libneeds.so"
    subprocess.run([host_compiler(), "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    listing = subprocess.run(["objdump", "-p", str(library)], capture_output=True, text=True, check=True)
    expected = re.findall(r"^ +0x\w+ 0x\w+ \d+ (\S+)$", listing.stdout, re.MULTILINE)
    assert sorted(elf.needed_versions(library)) == sorted(expected)
    assert "GLIBCXX_3.4.21" in expected
    with pytest.raises(BuildError, match="not a 64-bit"):
        [*elf.needed_versions(source)]


@pytest.mark.parametrize(
    ("versions", "tag"),
    [
        (["GLIBC_2.2.5", "GLIBC_2.17", "GLIBCXX_3.4.19"], "manylinux_2_17_x"),
        (["GLIBC_2.17", "GLIBCXX_3.4.21", "CXXABI_1.3.9"], "manylinux_2_28_x"),
        (["GLIBC_2.34"], "manylinux_2_34_x"),
        (["GLIBC_2.2.5", "GLIBC_2.100"], "linux_x"),
        (["GLIBCXX_3.4.99"], "linux_x"),
        ([], "manylinux_2_17_x"),
    ],
)
def test_platforms(versions: list[str], tag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elf, "needed_versions", lambda library: versions)
    assert elf.platform_tag([Path("x.so")], "x") == tag
