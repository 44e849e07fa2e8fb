"""The activations of the epilogues of our kernels: torch's values, and NaN stays NaN."""

from __future__ import annotations

from pathlib import Path

import host_programs

from tilewright.base import paths


def test_activations_are_torchs() -> None:
    headers = host_programs.empty_headers(["tilewright/sm90/elements.hpp"])
    source = Path(__file__).with_name("activations.cc")
    options = ["-std=c++17", "-O1", "-I", str(paths.include_dir())]
    done = host_programs.run(host_programs.compiled("activations", [source], options, files=headers))
    assert (done.returncode, done.stdout) == (0, "")
