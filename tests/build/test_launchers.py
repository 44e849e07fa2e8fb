"""What stands before nvcc: any program, and the compiler caches for real where they are installed."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from small_modules import TENSOR, Mini

from tilewright.compile.building import build
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.compile.report import BuildReport
from tilewright.compile.store import Store
from tilewright.errors import ToolchainError
from tilewright_generator.cli.build import command

pytestmark = pytest.mark.compile
Launcher = Callable[..., tuple[list[str], Path]]


def test_the_launcher_stands_before_nvcc(
    mini: Mini, store: Store, toolchain: NvccToolchain, launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, notes = launcher()
    mini.add("one")
    assert build([mini.table()], store=store, toolchain=toolchain, launcher=line).ok
    assert notes.read_text().count("start") == 1

    monkeypatch.setenv("TILEWRIGHT_LAUNCHER", " ".join(line))  # also of a build that a call needs
    assert build([mini.add("two").table()], store=store, toolchain=toolchain).ok
    assert notes.read_text().count("start") == 2
    assert build([mini.add("three").table()], store=store, toolchain=toolchain, launcher=[]).ok
    assert notes.read_text().count("start") == 2

    mini.add("four").table()
    (mini.folder.parents[1] / "specs").mkdir()
    monkeypatch.chdir(mini.folder.parents[1])
    common = ["--cache", str(store.root), "--filter", "four"]
    assert CliRunner().invoke(command, [*common, "--launcher", "env NOTHING=1"]).exit_code == 0
    assert notes.read_text().count("start") == 2
    mini.add("four", number=9).table()
    assert CliRunner().invoke(command, common).exit_code == 0
    assert notes.read_text().count("start") == 3


def test_a_launcher_that_is_not_there(mini: Mini, store: Store, toolchain: NvccToolchain) -> None:
    for launcher in (["no-such-launcher"], ["/nowhere/sccache"]):
        with pytest.raises(ToolchainError, match=f"there is no program {launcher[0]} to put before nvcc"):
            build([mini.add("one").table()], store=store, toolchain=toolchain, launcher=launcher)


def twice(
    mini: Mini, toolchain: NvccToolchain, folder: Path, launcher: str
) -> tuple[BuildReport, BuildReport]:
    """Builds into two caches of ours, so that the second time only the launcher's own has it."""
    table = mini.add("one", TENSOR, number=3, instructions=["HGMMA"]).table()
    first, second = (
        build([table], store=Store(folder / name), toolchain=toolchain, launcher=[launcher]) for name in "ab"
    )
    assert first.ok, first.explain_failures()
    assert second.ok, second.explain_failures()
    for fact in ("registers", "code_bytes", "tensor_instructions", "object"):
        assert first.units[0].data[fact] == second.units[0].data[fact]
    return first, second


@pytest.mark.skipif(shutil.which("ccache") is None, reason="ccache is not installed")
def test_ccache_serves_another_cache(
    mini: Mini, toolchain: NvccToolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCACHE_DIR", str(tmp_path / "ccache"))
    monkeypatch.delenv("CCACHE_DISABLE", raising=False)
    twice(mini, toolchain, tmp_path, "ccache")
    said = subprocess.run(["ccache", "--print-stats"], capture_output=True, text=True, check=True).stdout
    assert "direct_cache_hit\t1" in said


@pytest.fixture
def sccache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """sccache with a server and a cache of its own."""
    program = shutil.which("sccache")
    if program is None:
        pytest.skip("sccache is not installed")
    monkeypatch.setenv("SCCACHE_DIR", str(tmp_path / "sccache"))
    for _ in range(20):  # another process may take the port before the server does
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            monkeypatch.setenv("SCCACHE_SERVER_PORT", str(probe.getsockname()[1]))
        server = subprocess.run([program, "--start-server"], capture_output=True, text=True, check=False)
        if server.returncode == 0:
            break
    assert server.returncode == 0, server.stderr
    yield Path(program)
    subprocess.run([program, "--stop-server"], capture_output=True, check=False)


def test_sccache_serves_another_cache(
    mini: Mini, toolchain: NvccToolchain, tmp_path: Path, sccache: Path
) -> None:
    twice(mini, toolchain, tmp_path, str(sccache))
    command = [str(sccache), "--show-stats", "--stats-format=json"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    hits = json.loads(said)["stats"]["cache_hits"]["counts"]
    assert hits.get("CUDA") == 1  # all of the unit; its passes are kept one by one as well
