"""The declarations in docs/design.md."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright import paths
from tilewright.interface import declaration
from tilewright.interface.arguments import packed, struct
from tilewright.interface.headers import arguments_header
from tilewright.ops.common.tactics import MATRIX_TACTIC, Tactic
from tilewright.ops.common.words import Extent, Types, Words

DESIGN = Path(__file__).resolve().parents[2] / "docs/design.md"
PROBLEM = SimpleNamespace(
    m=40, n=24, k=512, groups=3, row_alignment=128, k_blocks=4, n_blocks=1, a="e4m3", b="e4m3", d="bf16",
)  # fmt: skip
EXTENTS = {
    "GROUPED": ("m", "n", "k", "groups"),
}
DECLARED = {
    "GROUPED": {
        "m": 40,
        "groups": 3,
        "ld_a": 512,
        "ld_b": 512,
        "ld_d": 24,
        "ld_a_scales": 40,
        "batch_stride_b": 512 * 24,
        "row_alignment": 128,
    },
}


def declared(name: str) -> declaration.Interface:
    """Of the page's Python, what is assigned to the name."""
    blocks = re.findall(r"```python\n(.*?)```", DESIGN.read_text(encoding="utf-8"), re.DOTALL)
    (text,) = (block for block in blocks if block.startswith(f"{name} = Interface("))
    extents = tuple(Extent(extent, "", usual=1) for extent in EXTENTS[name])
    types = Types("--dtype", "e4m3", {}, "", "")
    words = Words(name.lower(), "", SimpleNamespace, extents, types)
    scope: dict[str, Any] = {**vars(declaration), "MATRIX_TACTIC": MATRIX_TACTIC, "WORDS": words}
    exec(text, scope)
    found: declaration.Interface = scope[name]
    return found


@pytest.mark.parametrize("name", DECLARED)
def test_a_family_to_come_can_be_declared(name: str) -> None:
    interface = declared(name)
    made = struct(interface).from_buffer_copy(packed(interface, PROBLEM, Tactic("kernel", splits=4), 132))
    assert {member: getattr(made, member) for member in DECLARED[name]} == DECLARED[name]
    assert (made.tactic.splits, made.tactic.sm_count) == (4, 132)


@pytest.mark.parametrize("name", DECLARED)
def test_a_compiler_lays_the_struct_out_as_python_does(name: str, tmp_path: Path) -> None:
    interface = declared(name)
    kind, args = struct(interface), f"tilewright_{interface.family}_args"
    asserted = [f"static_assert(sizeof({args}) == {ctypes.sizeof(kind)});"]
    members = [member for member, *_ in kind._fields_]
    asserted += [f"static_assert(offsetof({args}, {one}) == {getattr(kind, one).offset});" for one in members]
    source = tmp_path / "layout.cc"
    source.write_text("#include <cstddef>\n" + arguments_header(interface) + "\n".join(asserted) + "\n")
    subprocess.run(
        ["g++", "-std=c++17", "-fsyntax-only", f"-I{paths.include_dir()}", str(source)], check=True
    )
