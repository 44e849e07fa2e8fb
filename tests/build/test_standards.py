"""Which standard of C++ a unit is compiled as."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_modules import PLAIN, Mini

from tilewright.base import paths
from tilewright.compile.building import build
from tilewright.compile.nvcc.compiler import Nvcc
from tilewright.compile.store import Store
from tilewright.declarations.table import Table
from tilewright.errors import TableError

USUAL = (
    "-std=c++17", "-O3", "-DNDEBUG", "--expt-relaxed-constexpr", "-Xptxas=-v",
    "-Xcompiler=-fPIC,-fvisibility=hidden", "-gencode=arch=compute_90a,code=sm_90a",
)  # fmt: skip
CHOICE = """
template <bool kLast> struct Choice {{
  static __device__ void run(int* x) {{
    if constexpr (kLast) {{ static_assert(!kLast, "not instantiated"); }} else {{ *x = 1; }}
  }}
}};
extern "C" __global__ void {name}_other(int* x) {{ Choice<false>::run(x); }}
"""


@pytest.fixture
def mini(tmp_path: Path) -> Mini:
    return Mini(tmp_path)


def test_what_says_nothing_is_compiled_as_it_always_was(mini: Mini) -> None:
    """These are in the keys of kernels that take hours to compile."""
    assert Nvcc().flags(mini.add("usual").table()["usual"]) == USUAL
    older = Nvcc().flags(mini.add("older", standard="c++14").table()["older"])
    assert older == ("-std=c++14", "-diag-suppress=2912", *USUAL[1:])
    with pytest.raises(TableError, match="standard"):
        mini.add("odd", standard="c++1z").table()["odd"]


@pytest.mark.compile
def test_a_choice_at_compile_time_is_no_matter_of_the_standard(mini: Mini) -> None:
    """nvcc and the host's compiler take `if constexpr` in a unit of C++14, and do not warn."""
    store = Store()
    table = mini.add("older", CHOICE + PLAIN, standard="c++14").table()
    report = build([table], store=store)
    report.raise_for_failures()
    entry = store.entry(report.units[0].key)
    assert entry is not None
    assert "warning" not in (Path(entry.object).parent / "log.txt").read_text()


def test_lean_kernels_spare_what_later_standards_include() -> None:
    table = Table.read(paths.shipped_generated_dir() / "sm90_gemm_lean" / "table.json")
    assert {table[name].standard for name in table} == {"c++14"}
