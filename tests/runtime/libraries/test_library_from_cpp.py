"""Kernels from a C++ program, without Python: `tilewright/library.hpp` and `tilewright config`."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from click.testing import CliRunner
from host_modules import ROOT
from host_programs import compiled

from tilewright_generator.cli.config import command

SOURCE = ROOT / "tests/runtime/library_from_cpp.cc"


def options(name: str) -> list[str]:
    result = CliRunner().invoke(command, [f"--{name}"])
    assert result.exit_code == 0, result.output
    return shlex.split(result.stdout)


def test_a_library_loaded_and_linked(host_library: Path) -> None:
    link = [str(host_library), f"-Wl,-rpath,{host_library.parent}", *options("ldflags")]
    program = compiled("library_from_cpp", [SOURCE], ["-Wall", "-Werror", *options("cflags")], link=link)
    done = subprocess.run(
        [str(program), str(host_library)], env={}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:4] == [
        "loaded: host_bf16_tn, 0 wrong",
        "linked: host_bf16_tn, 0 wrong",
        "absent: 1",
        f"{host_library} does not hold host_absent",
    ]
    assert f"host_old_abi of {host_library} has ABI " in lines[4]
    assert lines[4].endswith("build it again")
    assert f"host_bf16_tn of {host_library} takes " in lines[5]
    assert lines[5].endswith(" bytes of arguments, got 40")
    assert lines[6].startswith("cannot load a library of kernels: /nonexistent.so")
    choices = ["1: none 0", "2: two 2", "3: two 2", "4: four 4", "8: four 4", "9: nine 8", "10: none 0"]
    assert lines[7:] == choices
