"""The device code of `tilewright new-family`, on the host: every thread runs, every result is compared."""

from __future__ import annotations

from pathlib import Path

from family_project import NAME
from host_programs import ROOT, compiled, empty_headers, run

from tilewright_generator import scaffold

HERE = Path(__file__).parent
REPLACED = ("cuda_bf16.h", "tilewright/adapter.hpp")  # what host_gpu.hpp and new_family.cc stand for


def test_rows_of_any_length() -> None:
    include = f"tilewright_families/{NAME}/include/"
    headers = {
        path.removeprefix(include): text
        for path, text in scaffold.files(NAME).items()
        if path.startswith(include)
    }
    program = compiled(
        "new_family",
        [HERE / "new_family.cc"],
        ["-std=c++17", "-O1", f"-I{HERE}", f"-I{ROOT / 'runtime/include'}"],
        files=headers | empty_headers(REPLACED),
    )
    done = run(program)
    assert (done.returncode, done.stdout) == (0, "")
