"""Host keys: what changes the host code of a kernel, and what does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tilewright.compile.source_keys import HostKeys
from tilewright.declarations.table import Table

ROOT = Path(__file__).parents[2]
INCLUDE = Path("runtime/include/tilewright")
TABLE, UNIT, PROGRAM = "sm90_gemm_gated", "sm90_reduced_gemm", "sm90_gemm_cute"  # where the host code is


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / INCLUDE, root / INCLUDE)
    for module in (TABLE, UNIT, PROGRAM):
        shutil.copytree(ROOT / "generated" / module, root / "generated" / module)
    return root


def keys(tree: Path, module: str) -> dict[str, str]:
    table, host_keys = Table.read(tree / "generated" / module / "table.json"), HostKeys(tree / INCLUDE.parent)
    return {name: host_keys.of(table, table[name]) for name in table}


def changed(tree: Path, module: str, path: Path, old: str, new: str) -> set[bool]:
    """Whether the keys of the module's kernels change with a text of a file."""
    before, file = keys(tree, module), tree / path
    text = file.read_text(encoding="utf-8")
    assert old in text
    try:
        file.write_text(text.replace(old, new, 1), encoding="utf-8")
        after = keys(tree, module)
    finally:
        file.write_text(text, encoding="utf-8")
    return {before[name] != after[name] for name in before}


@pytest.mark.parametrize(
    ("module", "header"),
    [
        (TABLE, "gemm/lean_host.hpp"),
        (TABLE, "any_kernel.hpp"),
        (TABLE, "launcher.hpp"),
        (UNIT, "launcher.hpp"),
        (UNIT, "launch.hpp"),
        (UNIT, "reduced_gemm/reduced_gemm.hpp"),
        (PROGRAM, "gemm/cute_dsl_host.hpp"),
        (PROGRAM, "program.hpp"),
    ],
)
def test_host_code_changes_the_keys_of_all_kernels_that_it_launches(
    tree: Path, module: str, header: str
) -> None:
    assert changed(tree, module, INCLUDE / header, "return ", "return 1 + ") == {True}
    assert changed(tree, module, INCLUDE / header, "\n#pragma once", "// reworded\n#pragma once") == {False}


def test_code_of_the_device_alone_changes_no_key(tree: Path) -> None:
    header, more = INCLUDE / "sm90/mainloop.hpp", "__device__ void more() { work(); } "
    assert changed(tree, TABLE, header, "__device__ ", f"{more}__device__ ") == {False}
    source = Path(f"generated/{PROGRAM}/{next(iter(keys(tree, PROGRAM)))}.py")
    assert changed(tree, PROGRAM, source, "STORING = 1", "STORING = 2") == {False}


def test_another_kernel_in_a_module_changes_no_key(tree: Path) -> None:
    table = Path(f"generated/{TABLE}/table.cc")
    assert changed(tree, TABLE, table, "(X) \\\n", "(X) \\\n  X(another) \\\n") == {False}
    assert changed(tree, TABLE, table, "tilewright_gemm_args)", "tilewright_other_args)") == {True}


def test_a_unit_changes_its_own_key(tree: Path) -> None:
    for module, suffix, old, new in (
        (UNIT, "cu", "true", "false"),
        (PROGRAM, "py", "128, 128, 64", "128, 64, 64"),
    ):
        source = Path(f"generated/{module}/{next(iter(keys(tree, module)))}.{suffix}")
        assert changed(tree, module, source, old, new) == {True, False}
