"""What the compilers refuse is remembered for its source and toolchain, and tried again with others."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from small_modules import Mini

from tilewright.base import paths
from tilewright.compile.building import build
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.compile.store import Store
from tilewright.errors import BuildError, UncompilableError
from tilewright.libraries.registry import Registry
from tilewright_generator import eviction

pytestmark = pytest.mark.compile
Launcher = Callable[..., tuple[list[str], Path]]
BROKEN = "#ifndef WHOLE\n#error this is not whole\n#endif\n__global__ void {name}() {{}}"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(store.root))
    monkeypatch.delenv("TILEWRIGHT_JIT", raising=False)


@pytest.fixture
def compiles(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often nvcc has been called for a kernel."""
    command, notes = launcher()
    monkeypatch.setenv("TILEWRIGHT_LAUNCHER", " ".join(command))
    return lambda: notes.read_text().count("start") if notes.exists() else 0


def load(mini: Mini, kernel: str) -> Registry:
    """As a fresh process would."""
    registry = Registry(mini.folder.parent)
    registry.library(registry.record(kernel))
    return registry


def refused(mini: Mini, kernel: str) -> str:
    with pytest.raises(UncompilableError) as caught:
        load(mini, kernel)
    return str(caught.value)


@pytest.mark.parametrize(("release", "enough"), [("", False), ("4.2.0", False), ("4.5.0", True)])
def test_headers_that_are_absent_or_too_old_are_an_obstacle(
    mini: Mini, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, release: str, enough: bool
) -> None:
    """For a kernel that needs newer ones, and for no other."""
    mini.add("plain").add("needy", cutlass="4.5").table()
    headers = tmp_path / "headers"
    (headers / "include/cutlass").mkdir(parents=True)
    if release:
        names = ("MAJOR", "MINOR", "PATCH")
        lines = [
            f"#define CUTLASS_{name} {number}" for name, number in zip(names, release.split("."), strict=True)
        ]
        (headers / "include/cutlass/version.h").write_text("\n".join(lines))
        (headers / "include/cutlass/cutlass.h").write_text("")
    monkeypatch.setenv("CUTLASS_PATH", str(headers))
    registry = Registry(mini.folder.parent)
    assert registry.obstacle(registry.record("plain")) == ""
    assert registry.obstacle(registry.record("needy")) == ("" if enough else "it needs CUTLASS 4.5")


def test_it_is_compiled_once(
    mini: Mini, toolchain: NvccToolchain, compiles: Callable[[], int], caplog: pytest.LogCaptureFixture
) -> None:
    mini.add("bad", BROKEN).add("good", number=5).table()
    registry = Registry(mini.folder.parent)
    record = registry.record("bad")
    assert registry.obstacle(record) == ""
    for _ in range(2):
        with pytest.raises(UncompilableError, match="this is not whole"):
            registry.library(record)
    assert registry.obstacle(record) == "it does not compile"
    assert not registry.buildable(record)
    warnings = [
        event.getMessage() for event in caplog.records if "does not compile here" in event.getMessage()
    ]
    assert len(warnings) == 1
    assert "bad does not compile here" in warnings[0]
    assert "this is not whole" in warnings[0]

    text = refused(mini, "bad")  # another registry, so what the cache says
    assert "this is not whole" in text
    assert "`tilewright build --filter bad` tries it again" in text
    assert compiles() == 1
    assert load(mini, "good").obstacle(record) == "it does not compile"


def test_another_source_or_toolchain_is_tried(
    mini: Mini, toolchain: NvccToolchain, compiles: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    mini.add("bad", BROKEN).table()
    refused(mini, "bad")
    with monkeypatch.context() as patch:
        patch.setenv("NVCC_APPEND_FLAGS", "-DWHOLE")
        load(mini, "bad")
    assert compiles() == 2
    mini.add("bad", BROKEN + "\n// another source").table()
    refused(mini, "bad")
    assert compiles() == 3
    mini.add("bad", number=3).table()
    assert load(mini, "bad").library(Registry(mini.folder.parent).record("bad"))._module.number("bad") == 3
    assert compiles() == 4


def test_a_build_tries_always_and_what_it_builds_is_forgotten(
    mini: Mini, store: Store, toolchain: NvccToolchain, launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler of a day on which it was broken."""
    mended = store.root.parent / "mended"
    command, notes = launcher(f'test -e {mended} || {{ echo "one.cu(1): error: broken"; exit 1; }}')
    monkeypatch.setenv("TILEWRIGHT_LAUNCHER", " ".join(command))
    table = mini.add("one", number=3).table()
    assert "error: broken" in refused(mini, "one")
    for starts in (2, 3):
        report = build([table], store=store, toolchain=toolchain)
        assert not report.ok
        assert notes.read_text().count("start") == starts
    mended.touch()
    refused(mini, "one")
    registry = Registry(mini.folder.parent)
    with pytest.raises(UncompilableError):
        registry.library(table["one"])
    assert build([table], store=store, toolchain=toolchain).ok
    registry.refresh()
    assert registry.obstacle(table["one"]) == ""
    assert registry.library(table["one"])._module.number("one") == 3
    assert not store.listed("refusals")


def test_a_refresh_reads_what_other_processes_were_refused(
    mini: Mini, store: Store, toolchain: NvccToolchain
) -> None:
    table = mini.add("bad", BROKEN).table()
    registry = Registry(mini.folder.parent)
    assert registry.obstacle(table["bad"]) == ""
    assert not build([table], store=store, toolchain=toolchain).ok
    registry.refresh()
    assert registry.obstacle(table["bad"]) == "it does not compile"


def test_the_wrong_instructions_are_a_refusal_too(
    mini: Mini, toolchain: NvccToolchain, compiles: Callable[[], int]
) -> None:
    mini.add("plain", instructions=["HGMMA"]).table()
    assert "wrong path: its SASS has no HGMMA" in refused(mini, "plain")
    assert "wrong path: its SASS has no HGMMA" in refused(mini, "plain")
    assert compiles() == 1
    mini.add("plain").table()  # the row demands them no more, of the same source
    load(mini, "plain")


def test_what_may_go_well_the_next_time_is_not(
    mini: Mini, store: Store, toolchain: NvccToolchain, launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler that is killed, a launcher that fails, a full disk."""
    mini.add("one", number=3).table()
    for extra in (
        "kill -9 $$",
        "echo 'sccache: error: connection refused'; exit 2",
        "echo 'one.cu(1): error: No space left on device'; exit 1",
    ):
        command, _ = launcher(extra)
        with monkeypatch.context() as patch:
            patch.setenv("TILEWRIGHT_LAUNCHER", " ".join(command))
            with pytest.raises(BuildError) as caught:
                load(mini, "one")
            assert not isinstance(caught.value, UncompilableError), extra
        assert not store.listed("refusals")
    load(mini, "one")


def test_refusals_that_are_damaged_old_or_of_no_toolchain(
    mini: Mini,
    store: Store,
    toolchain: NvccToolchain,
    compiles: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = mini.add("bad", BROKEN).table()
    refused(mini, "bad")
    (note,) = store.listed("refusals")
    assert json.loads(note.read_text())["kernel"] == "bad"
    with monkeypatch.context() as patch:
        patch.setenv("CXX", "/no/compiler")
        assert Registry(mini.folder.parent).obstacle(table["bad"]) == ""
    note.write_text("{")
    refused(mini, "bad")
    assert compiles() == 2
    os.utime(note, (0, 0))
    assert [file.path for file in eviction.debris(store, paths.include_dir(), 60)] == [note]
