"""CUTLASS releases: which there is, which a kernel needs, and what a build does where they differ."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from small_modules import HEAD, PLAIN, TAIL, Mini

from tilewright.compile.building import build
from tilewright.compile.compilers import of
from tilewright.compile.library import libraries
from tilewright.compile.nvcc import toolchain as toolchains
from tilewright.compile.nvcc.cutlass import headers_release, keyed_release, satisfies
from tilewright.compile.nvcc.toolchain import NvccToolchain, find_toolchain
from tilewright.compile.report import BuildReport
from tilewright.compile.store import Store
from tilewright.context import Context
from tilewright.errors import NotBuiltError
from tilewright.libraries.registry import Registry
from tilewright.tools import doctor
from tilewright_generator.cli import invoke
from tilewright_generator.cli.build import command

FAR = "99.5"  # a release that no headers of today are


@pytest.fixture
def future(tmp_path: Path) -> Path:
    """Headers of a release that satisfies FAR, as far as kernels that include none of them can tell."""
    folder = tmp_path / "future" / "include" / "cutlass"
    folder.mkdir(parents=True)
    (folder / "cutlass.h").write_text("#pragma once\n")
    numbers = (("MAJOR", 99), ("MINOR", 5), ("PATCH", 1))
    (folder / "version.h").write_text("".join(f"#define CUTLASS_{name} {value}\n" for name, value in numbers))
    return folder.parent


@pytest.mark.parametrize(
    ("release", "needed", "enough"),
    [
        ("4.2.0", "", True),
        ("4.2.0", "4.2", True),
        ("4.2.0", "4.2.0", True),
        ("4.2.0", "4.2.1", False),
        ("4.2.0", "4.5", False),
        ("4.10.0", "4.5", True),  # numbers, not letters
        ("5.0.0", "4.5", True),
        ("", "4.5", False),
        ("", "", True),
    ],
)
def test_whether_headers_suffice(release: str, needed: str, enough: bool) -> None:
    assert satisfies(release, needed) == enough


@pytest.mark.parametrize(
    ("release", "needed", "keyed"),
    [
        ("4.2.0", "", "4.2.0"),
        ("4.2.0", "4.5", "4.5"),  # where nothing can be compiled, what it would be compiled with
        ("4.5.0", "4.5", "4.5"),
        ("4.5.2", "4.5", "4.5"),
        ("4.6.0", "4.5", "4.6"),
        ("4.5.2", "4.5.0", "4.5.2"),  # a need stated more precisely
        ("", "4.5", "4.5"),
    ],
)
def test_the_release_in_a_source_key(release: str, needed: str, keyed: str) -> None:
    assert keyed_release(release, needed) == keyed


def test_the_headers_say_their_release(future: Path) -> None:
    assert headers_release(future) == "99.5.1"
    assert find_toolchain(cutlass=future.parent).cutlass_version == "99.5.1"


def mixed(mini: Mini) -> Mini:
    return mini.add("plain", number=1).add("far", number=2, cutlass=FAR)


def reason(toolchain: NvccToolchain) -> str:
    there = f"the headers at {toolchain.cutlass} are {toolchain.cutlass_version}"
    return f"needs CUTLASS {FAR}, {there}; pass --cutlass"


def statuses(report: BuildReport) -> dict[str, str]:
    return {unit.name: unit.status for unit in report.units}


@pytest.mark.compile
def test_older_headers_skip_the_kernel_and_say_so(mini: Mini, store: Store, toolchain: NvccToolchain) -> None:
    report = build([mixed(mini).table()], store=store, toolchain=toolchain)
    assert report.ok
    assert statuses(report) == {"plain": "built", "far": "skipped"}
    assert set(report.libraries[0].kernels) == {"plain"}
    data = report.to_json()
    assert data["skipped"] == [{"reason": reason(toolchain), "count": 1, "kernels": ["far"]}]
    assert [kernel.get("reason") for kernel in data["kernels"]] == [None, reason(toolchain)]
    assert "skipped" in report.table()


@pytest.mark.compile
def test_an_older_nvcc_skips_kernels_of_a_newer_target(
    mini: Mini, store: Store, toolchain: NvccToolchain
) -> None:
    """Rubin's, for which the pinned nvcc does not compile. A newer one is asked."""
    table = mini.add("plain", number=1).add("rubin", number=2, arch="sm_107a").table()
    older, newer = (replace(toolchain, nvcc_version=f"release 13.{n}, V13.{n}.37") for n in (0, 5))
    report = build([table], store=store, toolchain=older)
    assert report.ok
    assert statuses(report) == {"plain": "built", "rubin": "skipped"}
    skipped, *_ = report.to_json()["skipped"]
    assert skipped["reason"] == f"needs nvcc 13.4, {toolchain.nvcc} is 13.0.37"
    assert of(table["rubin"]).refusal(table["rubin"], newer, cutlass=False) == ""


@pytest.mark.parametrize(("release", "lacking"), [("13.0", "it needs nvcc 13.4"), ("13.5", "")])
def test_selection_passes_over_it(
    mini: Mini, monkeypatch: pytest.MonkeyPatch, release: str, lacking: str
) -> None:
    record = mini.add("rubin", arch="sm_107a").table()["rubin"]
    monkeypatch.setattr(toolchains, "cuda_release", lambda: release)
    assert of(record).obstacle(record) == lacking


@pytest.mark.compile
def test_newer_headers_compile_it_and_its_library_stays(
    mini: Mini, store: Store, toolchain: NvccToolchain, future: Path
) -> None:
    table = mixed(mini).table()
    newer = find_toolchain(cutlass=future)
    report = build([table], store=store, toolchain=newer)
    assert statuses(report) == {"plain": "built", "far": "built"}
    older = build([table], store=store, toolchain=toolchain)  # "plain" includes none of these headers
    assert statuses(older) == {"plain": "cached", "far": "skipped"}
    assert [set(library.kernels) for library in libraries("mini", store=store)] == [
        {"plain"},
        {"plain", "far"},
    ]
    assert Registry(mini.folder.parent, libraries=lambda module: libraries(module, store=store)).is_built(
        table["far"]
    )


def test_to_ask_for_nothing_else_is_an_error(mini: Mini, store: Store, toolchain: NvccToolchain) -> None:
    table = mixed(mini).table()
    for select in (["far"], ["plain", "far"], lambda record: record.name == "far"):
        with pytest.raises(NotBuiltError) as caught:
            build([table], select, store=store, toolchain=toolchain)
        assert caught.value.message == f"far: {reason(toolchain)}"
        assert caught.value.exit_code == 2
    assert not (store.root / "objects").exists()
    some = build([table], lambda record: "a" in record.name, store=store, toolchain=toolchain, dry_run=True)
    assert statuses(some) == {"plain": "missing", "far": "skipped"}


def test_a_module_of_nothing_else_links_nothing(mini: Mini, store: Store, toolchain: NvccToolchain) -> None:
    report = build([mini.add("far", cutlass=FAR).table()], store=store, toolchain=toolchain)
    assert report.ok
    assert report.libraries == []
    assert not (store.root / "objects").exists()  # not even the table's source is compiled


def test_an_edited_source_is_a_failure_all_the_same(
    mini: Mini, store: Store, toolchain: NvccToolchain
) -> None:
    table = mini.add("far", cutlass=FAR).table()
    (mini.folder / "far.cu").write_text("// edited by hand\n")
    assert not build([table], store=store, toolchain=toolchain).ok


def test_a_call_that_needs_it_says_why_it_cannot_be_built(
    mini: Mini, toolchain: NvccToolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TILEWRIGHT_JIT", raising=False)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    mixed(mini).table()
    registry = Registry(mini.folder.parent)
    with pytest.raises(NotBuiltError) as caught:
        registry.library(registry.record("far"))
    assert reason(toolchain) in str(caught.value)
    assert "CUTLASS_PATH" in str(caught.value)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of both kinds, one that needs newer headers alone, and the release that there is."""
    root = tmp_path / "project"
    (root / "specs").mkdir(parents=True)
    monkeypatch.chdir(root)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    far = {"cutlass": FAR, "config": {"cutlass": FAR}}
    Mini(root / "generated", "both").add("plain", config={"cutlass": "4.2"}).add("far", **far).table()
    Mini(root / "generated", "newer").add("farther", **far).table()
    return root


@pytest.mark.compile
def test_the_command_lists_what_it_skips(project: Path, toolchain: NvccToolchain) -> None:
    said = f"skipped 2 kernels: {reason(toolchain)}\n  far\n  farther\n"
    result = CliRunner().invoke(command, ["--dry-run"])
    assert result.exit_code == 0
    assert said in result.stdout
    assert "0 cached, 1 to compile, 2 skipped" in result.stdout
    result = CliRunner().invoke(command, ["--report", "report.json"])
    assert result.exit_code == 0, result.output
    assert said in result.stdout
    assert "1 built, 2 skipped" in result.stdout
    assert json.loads(Path("report.json").read_text())["skipped"][0]["count"] == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["--filter", "far"],
        ["--filter", "plain,far"],
        ["--filter", "far*"],
        ["--filter", f"cutlass={FAR}"],
        ["newer"],
    ],
)
def test_the_command_exits_2_where_that_is_asked_for(
    project: Path, toolchain: NvccToolchain, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["build", *arguments]) == 2
    assert reason(toolchain) in capsys.readouterr().err


@pytest.mark.compile
def test_the_command_takes_other_headers(project: Path, future: Path) -> None:
    result = CliRunner().invoke(command, ["--filter", "far*", "--cutlass", str(future)])
    assert result.exit_code == 0, result.output
    assert "2 built" in result.stdout
    assert "skipped" not in result.stdout


@pytest.fixture
def bare(toolchain: NvccToolchain, monkeypatch: pytest.MonkeyPatch) -> NvccToolchain:
    """The toolchain of a machine without CUTLASS."""
    monkeypatch.delenv("CUTLASS_PATH", raising=False)
    monkeypatch.setattr("tilewright.compile.nvcc.cutlass.package_folders", lambda name: ())
    actual = find_toolchain()
    assert (actual.cutlass, actual.cutlass_version, actual.nvcc) == (None, "", toolchain.nvcc)
    return actual


INCLUDING = '#include "cutlass/version.h"\n' + HEAD + PLAIN + TAIL
LACKING = "and no headers of it are installed: pip install nvidia-cutlass, or pass --cutlass"


@pytest.mark.compile
def test_kernels_that_include_no_cutlass_are_built_without_it(
    mini: Mini, store: Store, toolchain: NvccToolchain, bare: NvccToolchain
) -> None:
    mini.add("plain").add_source("collective", INCLUDING.format(name="collective", number=2))
    table = mini.add("far", cutlass=FAR).table()
    report = build([table], store=store)
    assert statuses(report) == {"plain": "built", "collective": "skipped", "far": "skipped"}
    assert report.skipped() == {
        f"needs CUTLASS, {LACKING}": ["collective"],
        f"needs CUTLASS {FAR}, {LACKING}": ["far"],
    }
    assert set(report.libraries[0].kernels) == {"plain"}
    for select in (["collective"], lambda record: record.name == "collective"):
        with pytest.raises(NotBuiltError, match=f"collective: needs CUTLASS, {LACKING}") as caught:
            build([table], select, store=store)
        assert "CUTLASS_PATH names the headers" in str(caught.value)
    later = build([table], store=store, toolchain=toolchain)  # CUTLASS is installed
    assert statuses(later) == {"plain": "cached", "collective": "built", "far": "skipped"}


def test_commands_say_what_lacks_cutlass(
    project: Path, bare: NvccToolchain, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["build", "--dry-run"]) == 0
    assert f"skipped 2 kernels: needs CUTLASS {FAR}, {LACKING}\n" in capsys.readouterr().out
    assert invoke(["toolchain", "--json"]) == 0
    assert not any(row["used"] for row in json.loads(capsys.readouterr().out)["cutlass"])


def test_doctor_counts_kernels_that_lack_cutlass(mini: Mini, bare: NvccToolchain) -> None:
    def findings() -> list[doctor.Finding]:
        context = Context(Registry(mini.folder.parent))
        return [each for each in doctor.diagnose(context) if each.text.startswith("no CUTLASS headers; ")]

    mini.add("plain").table()
    (finding,) = findings()
    assert finding.text.endswith("; no kernel still to build includes them")
    mini.add_source("collective", INCLUDING.format(name="collective", number=2)).table()
    (finding,) = findings()
    assert (finding.level, "; 1 kernels are skipped by builds: " in finding.text) == (doctor.OK, True)


def test_headers_of_no_known_release(mini: Mini, store: Store, toolchain: NvccToolchain) -> None:
    unknown = replace(toolchain, cutlass_version="")
    report = build([mixed(mini).table()], store=store, toolchain=unknown, dry_run=True)
    assert "are of no known release; pass --cutlass" in report.units[1].reason
