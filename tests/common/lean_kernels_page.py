"""The kernel of docs/lean_kernels.md, compiled into a library."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tilewright import paths
from tilewright.build.toolchain import find_toolchain

PAGE = Path(__file__).resolve().parents[2] / "docs/lean_kernels.md"
NAME = "plain_product_128x128"
FILES = dict(
    re.findall(
        r'^```cpp title="([^"]+)"\n(.*?)^```$', PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
)


def compiled(folder: Path) -> tuple[Path, str]:
    """The library, and what ptxas says of the kernel. Raises ToolchainError."""
    toolchain = find_toolchain()
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    library = folder / "kernel.so"
    done = subprocess.run(
        [
            toolchain.nvcc, f"-ccbin={toolchain.host[0]}", "-std=c++17", "-O3", "-DNDEBUG", "-Xptxas=-v",
            "-shared", "-Xcompiler=-fPIC", "-gencode=arch=compute_90a,code=sm_90a", f"-I{folder}",
            f"-I{paths.include_dir()}", f"-L{toolchain.lib}", folder / f"{NAME}.cu", "-o", library,
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return library, done.stderr
