"""The epilogue of a gated activation puts silu(gate) * up where it belongs, by TMA and by threads."""

from __future__ import annotations

from pathlib import Path

from host_programs import ROOT, compiled, run

HERE = Path(__file__).parent
# gated_epilogue.cc stands for what these hold: PTX, which no host assembles.
REPLACED = ("ptx", "elements")


def test_all_ways_to_store_tiles_of_both_orders() -> None:
    program = compiled(
        "gated_epilogue",
        [HERE / "gated_epilogue.cc"],
        ["-std=c++17", "-O1", f"-I{ROOT / 'runtime/include'}"],
        files={f"tilewright/sm90/{name}.hpp": "#pragma once\n" for name in REPLACED},
    )
    done = run(program)
    assert (done.returncode, done.stdout) == (0, "")
