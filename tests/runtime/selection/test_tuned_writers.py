"""Several processes write a tuned file, and some are killed: nothing that was confirmed is lost."""

from __future__ import annotations

import multiprocessing
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tuned_entries import DRIVER, entry

from tilewright.architectures.device import H200
from tilewright.families.gemm.family import FAMILY
from tilewright.libraries.registry import Registry
from tilewright.selection import tuned_files
from tilewright.selection.tuned_header import Header
from tilewright.tools.tuning import tuned_writing

pytestmark = pytest.mark.usefixtures("driver")

BOUND = 500  # seconds that no load reaches
WRITER = """
import sys
from pathlib import Path
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.families.grouped_gemm.family import FAMILY as GROUPED
from tilewright.libraries.registry import Registry
from tilewright.selection import tuned_files
from tilewright.tools.tuning import tuned_writing
from tilewright.selection.tuned_header import Header
path, generated, first, step = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
registry = Registry(generated, libraries=lambda module: [])
from tilewright.architectures.device import H200
header = Header.of(H200, registry, "gemm", driver="580.159.04", cuda="13.0", cutlass="4.2.0")
for m in range(first, int(sys.argv[5]), step):
    problem = Problem(m, 4096, 4096)
    tuned_writing.update(path, header, FAMILY, [tuned_files.Entry(problem, Tactic("small"), 1e-6 * m)])
    print(m, flush=True)
"""


def writer(path: Path, generated: Path, first: int, step: int, end: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), str(generated), str(first), str(step), str(end)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def extents(path: Path) -> set[int]:
    return {row["m"] for section in tuned_files.read(path).sections for row in section.rows}


def test_two_processes_lose_nothing(path: Path, generated: Path) -> None:
    writers = [writer(path, generated, first, 2, 121) for first in (1, 2)]
    for process in writers:
        process.communicate(timeout=BOUND)
        assert process.returncode == 0
    assert extents(path) == set(range(1, 121))


def test_a_writer_that_is_killed_loses_nothing_it_confirmed(path: Path, generated: Path) -> None:
    shuffler = random.Random(4)
    confirmed: set[int] = set()
    first = 1
    for _ in range(10):
        process = writer(path, generated, first, 1, first + 10_000)
        assert process.stdout is not None
        for _ in range(shuffler.randint(1, 8)):
            confirmed.add(int(process.stdout.readline()))
        process.send_signal(signal.SIGKILL)  # while it writes the next
        confirmed.update(map(int, process.stdout.read().split()))
        process.stdout.close()
        process.wait()
        actual = extents(path)
        assert confirmed <= actual
        assert len(actual - confirmed) <= 10  # of each, one that was written and not yet said
        first = max(actual) + 1
    assert len(confirmed) >= 10
    header = tuned_files.read(path).header
    tuned_writing.update(path, header, FAMILY, [entry(first)])  # no lock is left behind, and no debris
    assert confirmed <= extents(path)
    assert {file.name for file in path.parent.iterdir()} <= {"gemm.json", "gemm.json.lock"}


def _update_forever(path: Path, generated: Path) -> None:
    registry = Registry(generated, libraries=lambda module: [])
    header = Header.of(H200, registry, "gemm", driver=DRIVER, cuda="13.0", cutlass="4.2.0")
    while True:
        tuned_writing.update(path, header, FAMILY, [entry(m) for m in range(1, 200)])


def test_a_reader_never_sees_half_a_file(path: Path, generated: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=_update_forever, args=(path, generated))
    process.start()
    try:
        while not path.exists():
            assert process.is_alive()
            time.sleep(0.01)
        for _ in range(300):
            assert len(extents(path)) == 199
    finally:
        process.kill()
        process.join()
