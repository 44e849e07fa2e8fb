"""What compilers print is bounded in memory and on the terminal, and their silence is told as such."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_modules import Mini, python

from tilewright.compile import system
from tilewright.compile.building import build
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.compile.store import Store
from tilewright.compile.system import KEPT_BYTES, run_bounded
from tilewright.errors import UncompilableError

pytestmark = pytest.mark.compile
Launcher = Callable[..., tuple[list[str], Path]]
MEASURED = """
import json, resource, sys
from pathlib import Path
from tilewright.compile.building import build
from tilewright.compile.store import Store
from tilewright.declarations.table import Table
table, cache, launcher = sys.argv[1:]
report = build([Table.read(Path(table))], store=Store(Path(cache)), launcher=[launcher], link_libraries=False)
status = Path("/proc/self/status").read_text()  # ru_maxrss counts what the tests' own process had, too
peaks = [int(status.split("VmHWM:")[1].split()[0]), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]
print(json.dumps({"said": report.explain_failures(), "peak": max(peaks) << 10, "log": report.units[0].log}))
"""


ENDLESS = {
    "xxx... (": "head -c 125829120 /dev/zero | tr '\\0' x; exit 1",
    "the last": "yes 'a line of many' | head -c 125829120; echo 'one.cu(7): error: the last'; exit 1",
}


@pytest.mark.parametrize("shown", ENDLESS)
def test_a_compiler_that_prints_without_end(
    shown: str, mini: Mini, store: Store, toolchain: NvccToolchain, launcher: Launcher
) -> None:
    """120 MiB in one line, and in many."""
    (command,), _ = launcher(ENDLESS[shown])
    line, environment = python(MEASURED, mini.add("one").table().path, store.root, command)
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=True)
    actual = json.loads(done.stdout)
    assert "one: the compiler exits 1" in actual["said"]
    assert shown in actual["said"]
    assert len(actual["said"]) + len(done.stderr) < 10_000
    assert actual["peak"] < 200 << 20  # of any process: the output is 120 MiB
    log = Path(actual["log"])
    assert log.stat().st_size < 3 * KEPT_BYTES
    assert f"... {120 << 20} bytes" not in log.read_text()
    assert "bytes are left out ..." in log.read_text()


def test_both_ends_are_kept() -> None:
    for size in (0, 5, KEPT_BYTES, 2 * KEPT_BYTES, 2 * KEPT_BYTES + 1, 9 * KEPT_BYTES + 7):
        code = f"import sys; sys.stdout.write(('0123456789' * ({size} // 10 + 1))[:{size}]); sys.exit(3)"
        status, said = run_bounded([sys.executable, "-c", code])
        whole = ("0123456789" * (size // 10 + 1))[:size]
        if size > 2 * KEPT_BYTES:
            left_out = f"\n... {size - 2 * KEPT_BYTES} bytes are left out ...\n"
            whole = f"{whole[:KEPT_BYTES]}{left_out}{whole[-KEPT_BYTES:]}"
        assert status == 3
        assert said == whole, size


def test_one_that_hangs_is_ended() -> None:
    for first in ("pass", "os.close(1); os.close(2)"):
        with pytest.raises(subprocess.TimeoutExpired):
            run_bounded([sys.executable, "-c", f"import os, time; {first}; time.sleep(10000)"], timeout=0.5)


def test_an_interrupt_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = system.start

    def noted(*arguments: Any) -> subprocess.Popen[bytes]:
        started.append(start(*arguments))
        return started[-1]

    def interrupted(descriptor: int, deadline: float | None) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(system, "start", noted)
    monkeypatch.setattr(system, "_read_bounded", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_bounded([sys.executable, "-c", "import time; time.sleep(10000)"])
    actual = started[0].returncode
    started[0].kill()
    assert actual == -signal.SIGKILL


def test_a_compiler_that_writes_nothing(
    mini: Mini, store: Store, toolchain: NvccToolchain, launcher: Launcher
) -> None:
    table = mini.add("one").table()
    for extra, absent in (
        ("echo all is well; exit 0", "no kernel.o and no kernel.d"),
        (": > kernel.o; exit 0", "no kernel.o and no kernel.d"),
        ("echo x > kernel.o; exit 0", "no kernel.d"),
    ):
        command, _ = launcher(extra)
        report = build([table], store=store, toolchain=toolchain, launcher=command, link_libraries=False)
        said = report.explain_failures()
        assert f"one: the compiler exits 0 and wrote {absent}\n" in said
        assert f"reproduce: {command[0]} " in said
        with pytest.raises(Exception, match="exits 0") as caught:
            report.raise_for_failures()
        assert not isinstance(caught.value, UncompilableError)
    assert (
        "  all is well"
        in build(
            [table], store=store, toolchain=toolchain, launcher=launcher("echo all is well; exit 0")[0]
        ).explain_failures()
    )


def test_a_linker_that_writes_nothing(
    mini: Mini, store: Store, toolchain: NvccToolchain, tmp_path: Path
) -> None:
    """A host compiler that does compile."""
    host = tmp_path / "host"
    real = toolchain.host[0]
    silent = 'case "$*" in *-shared*) yes | head -c 9000000 | tr -d "\\n"; exit 0;; esac'
    host.write_text(f'#!/bin/sh\n{silent}\nexec {real} "$@"\n')
    host.chmod(0o755)
    table = mini.add("one").table()
    report = build([table], store=store, toolchain=replace(toolchain, host=(str(host),)))
    assert "mini: the linker exits 0 and wrote no mini.so\nyyy" in report.explain_failures()
    assert len(report.explain_failures()) < 10_000
