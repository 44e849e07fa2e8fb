"""What a release of CUTLASS tells the tensor core of sm_100, which nvcc takes half a minute to find out.

It follows from CUTLASS's headers and a source of ours alone, so it is kept in a file with their digest.
`PYTHONPATH=runtime:tests/compile python tests/compile/cutlass_descriptors.py` writes the file anew.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from pathlib import Path

from tilewright.compile.keys import digest
from tilewright.compile.nvcc.toolchain import NvccToolchain, find_toolchain
from tilewright.compile.trees import tree_digest

SOURCE = Path(__file__).with_name("mqa_tcgen05_cutlass.cu")
RECORD = SOURCE.with_suffix(".json")


def descriptors(toolchain: NvccToolchain) -> dict[str, str]:
    """Hexadecimal descriptors by name, and under "scales" the digest of where scale factors stand."""
    record: dict[str, dict[str, str]] = json.loads(RECORD.read_text(encoding="utf-8"))
    inputs = inputs_of(toolchain)
    return record[inputs] if inputs in record else compiled(toolchain)


def inputs_of(toolchain: NvccToolchain) -> str:
    return digest(tree_digest(Path(toolchain.cutlass), None), SOURCE.read_text(encoding="utf-8"))


def compiled(toolchain: NvccToolchain) -> dict[str, str]:
    """What the source prints, compiled with this CUTLASS."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "cutlass"
        options = ["-std=c++17", "-arch=sm_100a", "--expt-relaxed-constexpr", "-DNDEBUG"]
        folders = [f"-ccbin={toolchain.host[0]}", f"-I{toolchain.cutlass}", f"-L{toolchain.lib}"]
        subprocess.run([toolchain.nvcc, *options, *folders, SOURCE, "-o", program], check=True)
        text = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    lines = [line for line in text.splitlines() if len(line.split()) == 2]  # CUTLASS complains of the host
    scales = [line for line in lines if line.startswith("scale_")]
    others = (line.split() for line in lines if not line.startswith("scale_"))
    return dict(others) | {"scales": digest_of_lines(scales)}


def digest_of_lines(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


if __name__ == "__main__":
    nvcc = find_toolchain()
    RECORD.write_text(json.dumps({inputs_of(nvcc): compiled(nvcc)}, indent=1) + "\n", encoding="utf-8")
