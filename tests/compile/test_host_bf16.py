"""How kernels of the host round to BF16."""

from __future__ import annotations

from pathlib import Path

import host_programs

from tilewright.base import paths


def test_floats_are_rounded_to_nearest_even_and_nan_stays_nan() -> None:
    source = Path(__file__).with_name("host_bf16.cc")
    options = ["-std=c++17", "-O1", "-I", str(paths.include_dir())]
    rounded = {
        "3f808000": "3f80", "3f818000": "3f82", "3f808001": "3f81", "7f7fffff": "7f80", "ff800000": "ff80",
        "7fc00000": "7fc0", "7f800001": "7fc0", "7fffffff": "7fff", "ffffffff": "ffff",
    }  # fmt: skip
    done = host_programs.run(host_programs.compiled("host_bf16", [source], options), *rounded)
    assert done.stdout.split() == list(rounded.values())
