"""The order of tiles of the lean kernels, the divisions by multiplication that it takes, and how the thread
blocks of a cluster share loads."""

from __future__ import annotations

from pathlib import Path

import host_programs

from tilewright.base import paths


def test_every_block_is_visited_once() -> None:
    headers = host_programs.empty_headers(["cuda_runtime_api.h"])
    source = Path(__file__).with_name("lean_scheduler.cc")
    options = ["-std=c++17", "-O1", "-I", str(paths.include_dir())]
    done = host_programs.run(host_programs.compiled("lean_scheduler", [source], options, files=headers))
    assert (done.returncode, done.stdout) == (0, "")
