"""Which tiles kernels of `grouped_gemm` compute for groups of the device's, and what becomes of rows."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
INCLUDE = HERE.parents[1] / "runtime/include"
# What work.hpp and tile.hpp take of headers that hold PTX, which no host assembles.
STAND_INS = {
    "ptx": """
uint32_t elect_one();
template <class... Any> void barrier_init(Any...);
template <class... Any> void barrier_wait(Any...);
template <class... Any> void barrier_arrive(Any...);
uint32_t zero_after(uint32_t);
template <class... Any> void store_words(Any...);
template <class Any> void load_words(uint32_t, Any&);
""",
    "pipeline": """
template <int kStages> struct Position {
  int stage = 0;
  uint32_t phase = 0;
  void next();
};
""",
}


def test_every_row_that_counts_is_stored_once(tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path / "tilewright/sm90"
    folder.mkdir(parents=True)
    for name, text in STAND_INS.items():
        header = f"#pragma once\n#include <cstdint>\nnamespace tilewright::sm90 {{\n{text}\n}}\n"
        (folder / f"{name}.hpp").write_text(header)
    program = tmp_path / "grouped_work"
    command = [compiler, "-std=c++17", "-O2", f"-I{HERE}", f"-I{tmp_path}", f"-I{INCLUDE}"]
    subprocess.run([*command, str(HERE / "grouped_work.cc"), "-o", str(program)], check=True)
    found = subprocess.run([str(program)], check=False, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "")
