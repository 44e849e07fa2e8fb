"""Programmatic dependent launch, from the one field to the machine code.

`pdl` sets the launch attribute (kPdl) and what makes the device code wait (a definition for CUTLASS, kPdl
itself for kernels of ours). With the attribute alone a kernel would read what is not written yet.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest
from compiled_kernels import GENERATED, HOPPER, KERNELS, TABLES, Compiled
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tilewright.base import paths
from tilewright.compile.commands import OBJECT
from tilewright.compile.nvcc.compiler import Nvcc
from tilewright.compile.nvcc.toolchain import NvccToolchain, find_toolchain
from tilewright.configurations.shapes import Cluster, Tile
from tilewright.declarations.table import DEFAULT_COMPILER, KernelRecord, Table
from tilewright.families.blockscaled_gemm.config import BlockscaledGemmConfig
from tilewright_generator import families, records

TEMPLATES = GENERATED.parent / "templates"
COMPILED = GENERATED.parent / "benchmarks" / "results" / "compile"
RECORDS = {name: table[name] for table in TABLES for name in table}
BLOCKSCALED = [record for table in TABLES if table.family == "blockscaled_gemm" for record in table.values()]
# Kernels of nvcc, one of each architecture; sm_103a has none.
OF_ARCH = {
    record.arch: record
    for record in BLOCKSCALED
    if record.config["pdl"] and record.compiler == DEFAULT_COMPILER
}
WAITS = """
#include "cutlass/arch/grid_dependency_control.h"
extern "C" __global__ void waits(int* x) {
  cutlass::arch::wait_on_dependent_grids();
  *x = 1;
}
"""


def is_ours(record: KernelRecord) -> bool:
    """Whether the kernel is not CUTLASS's, as `gemm` says, and most block-scaled ones for Blackwell are."""
    mainloop = record.config.get("mainloop")
    blockscaled = record.name.startswith("blockscaled_gemm") and record.arch != "sm_90a"
    return mainloop == "mma" or not (mainloop == "cutlass" or blockscaled)


def switch_of(record: KernelRecord) -> set[str]:
    """What CUTLASS 4.2 (arch/grid_dependency_control.h) wants defined so that its kernels wait."""
    if is_ours(record):
        return set()
    if record.arch.startswith("sm_110"):
        return {"CUTLASS_GDC_ENABLED=1"}  # no switch knows __CUDA_ARCH__ 1100
    if not record.arch.startswith("sm_90"):
        return {"CUTLASS_ENABLE_GDC_FOR_SM100=1"}
    stream_k = record.config["scheduler"] == "stream_k"  # does not compile under the switch
    return {"CUTLASS_GDC_ENABLED=1" if stream_k else "CUTLASS_ENABLE_GDC_FOR_SM90=1"}


def of_cutlass_groups(record: KernelRecord) -> bool:
    """Whether the kernel is one of CUTLASS's for groups."""
    if record.name.startswith("blockscaled_grouped_gemm"):
        return True
    return record.config.get("mainloop") == "tcgen05" and record.name.startswith("grouped_gemm")


def waits_in_code(record: KernelRecord) -> bool:
    """Whether the kernel's code waits for the kernel before. Programs of tcgen05 do in any case."""
    if of_cutlass_groups(record):
        return False
    return record.config["pdl"] or record.config.get("mainloop") == "tcgen05"


def check(record: KernelRecord, source: str) -> None:
    """Attribute, definition and field say the same."""
    if record.config.get("mainloop") == "cute_dsl":  # a program in Python; its host code sets the attribute
        assert ("cute.arch.griddepcontrol_wait()" in source) == record.config["pdl"], record.name
        return
    if of_cutlass_groups(record):
        # CUTLASS's scheduler of groups reads what the kernel before it writes ahead of any wait.
        assert not record.config.get("pdl", False)
        assert "kPdl" not in source
        assert not [define for define in record.defines if "GDC" in define]
        return
    if record.config.get("mainloop") == "tcgen05":  # a program that always waits; the host sets the attribute
        program = paths.include_dir() / re.findall(r'^PROGRAM = "(.*)"$', source, re.MULTILINE)[0]
        text = program.read_text(encoding="utf-8")
        if "_ultra_" in program.name:  # it has the kernel of the program that it derives from
            assert "(BlockscaledGemm)" in text
            text = program.with_name("tcgen05_program.py").read_text(encoding="utf-8")
        assert "self.allocate(warp, memory)" in text  # which waits first
        tiles = (paths.include_dir() / "tilewright/gemm/tcgen05_tiles.py").read_text(encoding="utf-8")
        allocate = tiles[tiles.index("    def allocate(") : tiles.index("    def give_back(")]
        assert allocate.index("cute.arch.griddepcontrol_wait()") < allocate.index("alloc_tmem(")
        attributes = re.findall(r"\d+, \d+, (true|false), (?:\d+, )*[A-Z]", source, re.MULTILINE)
        assert attributes == ["true" if record.config["pdl"] else "false"], record.name
        return
    if record.config.get("compiler") == "cute_dsl":  # the program waits if its setting says so
        setting, attribute = re.findall(r'"pdl": (\w+),|\b(true|false)\)$', source, re.MULTILINE)[::-1]
        assert (setting[0], attribute[1]) == (str(record.config["pdl"]), str(record.config["pdl"]).lower())
        return
    attributes = re.findall(r"\bkPdl = (\w+);", source)
    assert attributes == ["true" if record.config["pdl"] else "false"], record.name
    expected = switch_of(record) if record.config["pdl"] else set()
    assert {define for define in record.defines if "GDC" in define} == expected, record.name
    if is_ours(record):  # the kernel's own parameter
        parameter = r"\b(Kernel|Base) =\s[^;]*\bkPdl\b[^;]*>;|(sm90|lean)::Kernel<[^>]*\bkPdl>"
        assert re.search(parameter, source), record.name


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.module)
def test_every_generated_kernel(table: Table) -> None:
    for record in table.values():
        check(record, table.source(record).read_text(encoding="utf-8"))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.module)
def test_every_row_of_the_compile_records_waits(table: Table) -> None:
    """In machine code, of whichever source it was: griddepcontrol.wait is ACQBULK."""
    rows = {row["name"]: row for row in records.read(COMPILED / f"{table.module}.json")["kernels"]}
    compiled = [record for record in table.values() if record.name in rows]
    assert compiled
    waits = {record.name: "ACQBULK" in rows[record.name]["grid_dependency"] for record in compiled}
    assert waits == {record.name: waits_in_code(record) for record in compiled}


def without_pdl(record: KernelRecord) -> tuple[KernelRecord, str]:
    """The same kernel with `pdl: false`, as the generator writes it."""
    family = families.get("blockscaled_gemm")
    values = {field.name: record.config[field.name] for field in fields(BlockscaledGemmConfig)}
    values |= {"pdl": False, "tile": Tile(*values["tile"])}
    if not isinstance(values["cluster"], str):
        values["cluster"] = Cluster(*values["cluster"])
    config = BlockscaledGemmConfig(**values)
    name = family.kernel_name(config)
    assert name == f"{record.name}_nopdl"
    environment = Environment(loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined)
    source = environment.get_template(family.template(config)).render(
        family.variables(config) | {"name": name, "spec": "specs/none.yaml"}
    )
    row = {"name": name, "source": f"{name}.cu", "sha256": "", "config": {**record.config, "pdl": False}}
    return KernelRecord.parse({**row, "facts": record.facts, **family.build(config)}), source


@pytest.mark.parametrize("arch", OF_ARCH)
def test_the_field_takes_both_away(arch: str) -> None:
    check(*without_pdl(OF_ARCH[arch]))


@pytest.fixture(scope="module")
def toolchain() -> NvccToolchain:
    return find_toolchain()


def griddepcontrol(toolchain: NvccToolchain, folder: Path, source: str, record: KernelRecord) -> set[str]:
    """What of ACQBULK and PREEXIT is in the machine code of a source, compiled with a kernel's flags."""
    path = folder / "unit.cu"
    path.write_text(source, encoding="utf-8")
    command = Nvcc().command(toolchain, paths.include_dir(), path, Nvcc().flags(record), ())
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    listing = subprocess.run(
        [str(toolchain.cuobjdump), "-sass", OBJECT], cwd=folder, check=True, capture_output=True, text=True
    )
    return set(re.findall(r"\b(ACQBULK|PREEXIT)\b", listing.stdout))


@pytest.mark.compile
def test_a_kernel_of_ours_waits_with_the_field_alone(
    compiled: dict[str, Compiled], toolchain: NvccToolchain, tmp_path: Path
) -> None:
    with_it = compiled[HOPPER]
    record, source = without_pdl(with_it.record)
    assert set(with_it.report["grid_dependency"]) == {"ACQBULK", "PREEXIT"}
    assert griddepcontrol(toolchain, tmp_path, source, record) == set()


@pytest.mark.compile
def test_the_definition_for_sm_110_makes_cutlass_wait(toolchain: NvccToolchain, tmp_path: Path) -> None:
    """Whole kernels are compiled for other targets; the target and the definition alone decide."""
    record = OF_ARCH["sm_110a"]
    assert griddepcontrol(toolchain, tmp_path, WAITS, record) == {"ACQBULK"}
    switched = record._replace(defines=("CUTLASS_ENABLE_GDC_FOR_SM100=1",))
    assert griddepcontrol(toolchain, tmp_path, WAITS, switched) == set()  # hence a definition of our own


def test_other_targets_are_compiled_whole() -> None:
    covered = {RECORDS[name].arch for name in KERNELS}
    of_cutlass = {record.arch for record in RECORDS.values() if not is_ours(record)}
    # The pinned nvcc does not compile for sm_107a: the record of its kernels says that they wait.
    assert of_cutlass == covered | {"sm_107a", "sm_110a"}
