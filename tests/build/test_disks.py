"""Full disks and disks that cannot be written: real ones, of a few kilobytes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from small_disk import SIZES
from small_modules import Mini, python

from tilewright.compile.nvcc.toolchain import NvccToolchain

pytestmark = pytest.mark.compile

# Ways to be root of a mount namespace; which of them a machine allows differs.
_NAMESPACES = (["unshare", "-rm"], ["unshare", "-m"], ["sudo", "-nE", "unshare", "-m"])


@cache
def namespace() -> list[str] | None:
    """The first that lets a disk be mounted."""
    for way in _NAMESPACES:
        if shutil.which(way[0]):
            command = [*way, "sh", "-c", "mount -t tmpfs -o size=32k tmpfs /mnt"]
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                return way
    return None


def on_small_disk(scenario: str, mini: Mini, folder: Path) -> Any:
    way = namespace()
    if way is None:
        pytest.skip("may not mount a small disk here")
    folder.mkdir()
    (line, environment) = python("", scenario, folder, mini.table().path)
    script = Path(__file__).with_name("small_disk.py")
    command = [*way, sys.executable, str(script), *line[3:]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_full(said: dict[str, Any], folder: Path) -> None:
    assert not said["ok"]
    assert f"no space left for the build cache in {folder}/cache: " in said["said"]
    assert "MiB are free, and to compile and link a kernel takes about 64 MiB for a while\n" in said["said"]
    assert "TILEWRIGHT_CACHE" in said["said"]
    assert said["broken"] == []
    assert said["libraries"] == 0


def test_a_disk_that_fills_up_at_any_point(mini: Mini, toolchain: NvccToolchain, tmp_path: Path) -> None:
    mini.add("one", number=1).add("two", number=2)
    actual = on_small_disk("growing", mini, tmp_path / "disk")
    attempts = actual["attempts"]
    full = [size for size in SIZES if not attempts[size]["ok"]]
    assert full[:4] == list(SIZES[:4])
    for size in full:
        check_full(attempts[size], tmp_path / "disk")
    assert attempts["200m"]["ok"], attempts["200m"]["said"]
    assert actual["numbers"] == [1, 2]
    assert actual["left"] == []


def test_a_disk_that_is_full_when_it_comes_to_linking(
    mini: Mini, toolchain: NvccToolchain, tmp_path: Path
) -> None:
    actual = on_small_disk("linking", mini.add("one", number=1), tmp_path / "disk")
    assert actual["attempts"]["compiled"]["ok"]
    check_full(actual["attempts"]["full"], tmp_path / "disk")
    assert actual["attempts"]["freed"]["ok"]
    assert actual["numbers"] == [1]
    assert actual["left"] == []


def test_a_limit_on_the_size_of_files(mini: Mini, toolchain: NvccToolchain, tmp_path: Path) -> None:
    """What quotas and `ulimit -f` do, which needs no rights: writing fails, and space is not the reason."""
    table = mini.add("one", number=1).table()
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from tilewright.compile.building import build; from tilewright.compile.store import Store\n"
        "from tilewright.declarations.table import Table\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), -1))\n"
        "report = build([Table.read(Path(sys.argv[1]))], store=Store(Path(sys.argv[2])))\n"
        "print(report.explain_failures()); sys.exit(not report.ok)"
    )
    cache = tmp_path / "cache"
    for limit in (200 << 10, 900 << 10):
        line, environment = python(code, table.path, cache, str(limit))
        done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert f"no space left for the build cache in {cache}" in done.stdout + done.stderr
        assert "a limit on the size of files ended the build\nRaise the limit" in done.stdout + done.stderr
        assert not list((cache / "libraries").glob("*/*"))
    line, environment = python(code, table.path, cache, str(1 << 30))
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_disk_that_cannot_be_written(mini: Mini, toolchain: NvccToolchain, tmp_path: Path) -> None:
    actual = on_small_disk("read_only", mini.add("one", number=1).add("two", number=2), tmp_path / "disk")
    assert actual["built"]
    assert actual["number"] == 1
    for said in (actual["refused"], actual["again"]["said"]):
        assert "Read-only file system" in said
        assert "Set TILEWRIGHT_CACHE to a folder that can be written." in said
    assert actual["refused"].startswith("StoreError: ")
    assert actual["again"]["broken"] == []
    assert not list((tmp_path / "disk").iterdir())  # it was in the namespace alone
