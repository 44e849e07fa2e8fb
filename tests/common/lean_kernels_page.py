"""The kernel of docs/lean_kernels.md, compiled into a library."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from tilewright.base import paths
from tilewright.compile.nvcc.toolchain import find_toolchain

PAGE = Path(__file__).resolve().parents[2] / "docs/lean_kernels.md"
NAME = "plain_product_128x128"
_TEXT = PAGE.read_text(encoding="utf-8")
FILES = dict(re.findall(r'^```cpp title="([^"]+)"\n(.*?)^```$', _TEXT, re.MULTILINE | re.DOTALL))
(_LAUNCH,) = re.findall(r'^```python title="launch.py"\n(.*?)^```$', _TEXT, re.MULTILINE | re.DOTALL)
(COMMAND,) = re.findall(r"^```sh nvcc\n(.*?)^```$", _TEXT, re.MULTILINE | re.DOTALL)


def launching() -> ModuleType:
    """The page's launch.py. Needs torch."""
    module = ModuleType("launch")
    exec(compile(_LAUNCH, "launch.py", "exec"), module.__dict__)
    return module


def compiled(folder: Path) -> tuple[Path, str]:
    """The library, and what ptxas says of the kernel. Raises ToolchainError."""
    toolchain = find_toolchain()
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tools / "python").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{toolchain.nvcc.parent}:{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(paths.include_dir().parent),
        "NVCC_APPEND_FLAGS": f"-ccbin={toolchain.host[0]} -L{toolchain.lib}",
    }
    done = subprocess.run(
        ["sh", "-ec", COMMAND], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "kernel.so", done.stdout + done.stderr
