"""`tilewright toolchain`: every nvcc and every CUTLASS of a machine, and what each would add to a build."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_modules import toolchain_expected

from tilewright.compile.nvcc import releases
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright_generator import cli

ROOT = Path(__file__).parents[2]
NVCC = """#!/bin/sh
case "$1" in
--version) echo "Cuda compilation tools, release 99.4, V99.4.7" ;;
--list-gpu-code) echo sm_90; echo sm_999 ;;
esac
"""


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_HOME", "CUDA_PATH", "CUTLASS_PATH"):
        monkeypatch.delenv(name, raising=False)


def headers(include: Path, release: str) -> Path:
    folder = include / "cutlass"
    folder.mkdir(parents=True)
    (folder / "cutlass.h").touch()
    numbers = zip(("MAJOR", "MINOR", "PATCH"), release.split("."), strict=True)
    (folder / "version.h").write_text("".join(f"#define CUTLASS_{name} {value}\n" for name, value in numbers))
    return include


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed wheel that holds headers of CUTLASS 4.5.1, as flashinfer-python does."""
    site = tmp_path / "site"
    include = headers(site / "kernels/data/cutlass/include", "4.5.1")
    about = site / "some_kernels-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: some-kernels\nVersion: 1.0\n")
    listed = [file.relative_to(site).as_posix() for file in sorted(include.rglob("*.h"))]
    (about / "RECORD").write_text("".join(f"{name},,\n" for name in listed))
    monkeypatch.syspath_prepend(str(site))
    return include


def rows(capsys: pytest.CaptureFixture[str], tool: str, *words: str) -> list[dict[str, object]]:
    assert cli.invoke(["toolchain", "--json", "--root", str(ROOT), *words]) == 0
    answer: list[dict[str, object]] = json.loads(capsys.readouterr().out)[tool]
    return answer


def test_newer_headers_of_a_wheel_add_what_a_build_skips(
    toolchain: NvccToolchain, wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = {str(row["path"]): row for row in rows(capsys, "cutlass")}
    row = listed[str(wheel)]
    assert (row["release"], row["origin"], row["used"]) == ("4.5.1", "the some-kernels wheel", False)
    table = json.loads((ROOT / "generated/sm120_nvfp4_gemm_small_n/table.json").read_text())
    assert row["adds"] == {"sm120_nvfp4_gemm_small_n": len(table["kernels"])}
    (used,) = [row for row in listed.values() if row["used"]]
    assert (used["release"], used["path"]) == (toolchain.cutlass_version, str(toolchain.cutlass))
    assert used["adds"] == {}


def test_it_says_how_to_build_what_is_added(
    toolchain: NvccToolchain, wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.invoke(["toolchain", "--root", str(ROOT)]) == 0
    assert f"tilewright build sm120_nvfp4_gemm_small_n --cutlass {wheel}\n" in capsys.readouterr().out


def test_outside_of_a_project_it_is_about_the_shipped_kernels(
    toolchain: NvccToolchain,
    wheel: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TILEWRIGHT_GENERATED", raising=False)
    assert cli.invoke(["toolchain"]) == 0
    command = f"tilewright build sm120_nvfp4_gemm_small_n --shipped --cutlass {wheel}\n"
    assert command in capsys.readouterr().out
    assert cli.invoke(["toolchain", "--root", str(tmp_path / "nothing")]) == 2


def test_a_release_that_kernels_need_and_the_machine_lacks(
    toolchain: NvccToolchain, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(releases, "headers", list)
    lacking = [row for row in rows(capsys, "cutlass") if row["path"] is None]
    modules = {"4.5": "sm120_nvfp4_gemm_small_n", "4.8": "sm107_nvfp4_gemm"}
    assert [(row["release"], row["used"]) for row in lacking] == [(release, False) for release in modules]
    for row, module in zip(lacking, modules.values(), strict=True):
        table = json.loads((ROOT / "generated" / module / "table.json").read_text())
        assert row["adds"] == {module: len(table["kernels"])}
    assert cli.invoke(["toolchain", "--root", str(ROOT)]) == 0
    text = capsys.readouterr().out
    assert "    4.5        or later: not on this machine\n" in text
    assert 'docs/commands.md, "Newer CUTLASS headers"' in text


def test_a_release_that_a_wheel_has_is_not_lacking(
    toolchain: NvccToolchain, wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A later one than the wheel's is, which Rubin's kernels need."""
    assert [row["release"] for row in rows(capsys, "cutlass") if row["path"] is None] == ["4.8"]


def test_with_newer_headers_nothing_is_added(
    toolchain: NvccToolchain, wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The option takes the folder that holds include/, too.
    (used,) = [row for row in rows(capsys, "cutlass", "--cutlass", str(wheel.parent)) if row["used"]]
    assert used["path"] == str(wheel)
    present = [row for row in rows(capsys, "cutlass", "--cutlass", str(wheel)) if row["path"] is not None]
    assert all(not row["adds"] for row in present)


def test_headers_that_no_wheel_holds_are_listed_where_an_option_or_a_variable_names_them(
    toolchain: NvccToolchain,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = headers(tmp_path / "own/include", "4.9.0")
    first, *_ = rows(capsys, "cutlass", "--cutlass", str(place))
    assert (first["origin"], first["release"], first["used"]) == ("--cutlass", "4.9.0", True)
    monkeypatch.setenv("CUTLASS_PATH", str(place.parent))
    first, *_ = rows(capsys, "cutlass")
    assert (first["origin"], first["release"], first["used"]) == ("CUTLASS_PATH", "4.9.0", True)


def test_every_nvcc_of_the_path_is_listed_with_the_architectures_it_adds(
    toolchain: NvccToolchain,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    newer, broken = tmp_path / "newer/nvcc", tmp_path / "broken/nvcc"
    for path, text in ((newer, NVCC), (broken, "#!/bin/sh\nexit 1\n")):
        path.parent.mkdir()
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(toolchain.root))
    monkeypatch.setenv("PATH", f"{newer.parent}:{broken.parent}:/usr/bin:/bin")
    listed = {str(row["path"]): row for row in rows(capsys, "nvcc", "--nvcc", str(toolchain.nvcc))}
    assert listed[str(newer)]["release"] == "99.4.7"
    assert listed[str(newer)]["architectures"] == [999]
    assert not listed[str(newer)]["adds"]
    assert "exits 1" in str(listed[str(broken)]["problem"])
    assert [row["path"] for row in listed.values() if row["used"]] == [str(toolchain.nvcc)]


def test_an_architecture_that_only_another_nvcc_has_adds_its_kernels(
    toolchain: NvccToolchain,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    older = tmp_path / "nvcc"
    older.write_text(f'#!/bin/sh\n"{toolchain.nvcc}" "$@" | grep -v sm_110\n')
    older.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(toolchain.nvcc.parents[1]))
    listed = {str(row["path"]): row for row in rows(capsys, "nvcc", "--nvcc", str(older))}
    assert listed[str(older)]["used"]
    row = listed[str(toolchain.nvcc)]
    assert row["architectures"] == [110]
    adds = row["adds"]
    assert isinstance(adds, dict)
    table = json.loads((ROOT / "generated/sm110_blockscaled_gemm/table.json").read_text())
    assert adds["sm110_blockscaled_gemm"] == len(table["kernels"])


def test_without_a_toolchain_the_places_are_listed_before_the_error(
    capsys: pytest.CaptureFixture[str], wheel: Path, tmp_path: Path
) -> None:
    assert cli.invoke(["toolchain", "--root", str(ROOT), "--nvcc", str(tmp_path / "none")]) == 2
    printed = capsys.readouterr()
    assert f"4.5.1      the some-kernels wheel: {wheel}\n" in printed.out
    assert "  * " not in printed.out
    assert "no usable nvcc" in printed.err


def test_the_wheels_are_found() -> None:
    if not toolchain_expected():
        pytest.skip("the toolchain's wheels are not installed")
    assert "the nvidia-cutlass wheel" in [place.origin for place in releases.headers()]
    assert "pip wheels" in [place.origin for place in releases.compilers()]
