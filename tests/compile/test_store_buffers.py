"""No epilogue writes to shared memory from which a TMA store may still read."""

from __future__ import annotations

from pathlib import Path

from host_programs import ROOT, compiled, run

HERE = Path(__file__).parent
# store_buffers.cc stands for what these hold: PTX, which no host assembles.
REPLACED = ("ptx", "elements")


def test_tiles_with_and_without_rows_that_are_left() -> None:
    program = compiled(
        "store_buffers",
        [HERE / "store_buffers.cc"],
        ["-std=c++17", "-O1", f"-I{ROOT / 'runtime/include'}"],
        files={f"tilewright/sm90/{name}.hpp": "#pragma once\n" for name in REPLACED},
    )
    done = run(program)
    assert (done.returncode, done.stdout) == (0, "")
