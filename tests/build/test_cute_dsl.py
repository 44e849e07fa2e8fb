"""CuTe-DSL as a compiler: without it its kernels are named and skipped, and with it one is built here."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_modules import Mini

from tilewright.architectures.device import H200
from tilewright.compile.building import build
from tilewright.compile.compilers import COMPILERS, of, of_table
from tilewright.compile.cute_dsl import installed, unit
from tilewright.compile.findings import WRONG_PATH
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.compile.source_keys import SourceHeaders, SourceKeys
from tilewright.compile.store import Store
from tilewright.declarations.arguments import packed, struct
from tilewright.declarations.table import KernelRecord, Table
from tilewright.declarations.tactics import Tactic
from tilewright.errors import NotBuiltError
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.interface import INTERFACE
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.library import load
from tilewright.libraries.registry import Registry

ROOT = Path(__file__).parents[2]
TABLE = Table.read(ROOT / "generated" / "sm90_gemm_cute" / "table.json")
NAME = "gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_1x1_cute_dsl_coop"
PTX = """
.visible .entry kernel_cutlass_kernel_0(
	.param .align 64 .b8 kernel_cutlass_kernel_0_param_0[128],
	.param .u64 .ptr .global .align 2 kernel_cutlass_kernel_0_param_1,
	.param .f32 kernel_cutlass_kernel_0_param_2
)
.reqntid 384, 1, 1
{
	ld.param.b32 	%r1, [kernel_cutlass_kernel_0_param_2];
}
"""
PARAMETERS = ("b8[128]", "u64", "f32")

needs_cute_dsl = pytest.mark.skipif(bool(installed.lacking()), reason=f"a kernel here {installed.lacking()}")


@pytest.mark.parametrize(
    ("release", "reason"),
    [
        ("", "it is not installed"),
        ("4.7.0", "release 4.7.0 is installed"),
        (installed.RELEASE, "its module cutlass is not on Python's path"),
    ],
)
def test_without_the_release_its_kernels_are_skipped_by_name(
    monkeypatch: pytest.MonkeyPatch, store: Store, toolchain: NvccToolchain, release: str, reason: str
) -> None:
    monkeypatch.setattr(installed, "release", lambda: release)
    monkeypatch.setattr(installed, "find_spec", lambda _: None)
    report = build([TABLE], store=store, toolchain=toolchain)
    assert {row.status for row in report.units} == {"skipped"}
    assert report.ok
    ((text, names),) = report.skipped().items()
    assert text.startswith(f"needs CuTe-DSL {installed.RELEASE}, and {reason}")
    assert text.endswith("pip install 'tilewright[cutedsl]'")
    assert sorted(names) == sorted(TABLE)
    with pytest.raises(NotBuiltError, match=f"{NAME}: needs CuTe-DSL") as refused:
        build([TABLE], [NAME], store=store, toolchain=toolchain)
    assert "CUTLASS" not in str(refused.value)
    assert Registry().obstacle(TABLE[NAME]).startswith("it needs CuTe-DSL")


def test_the_release_is_that_of_the_extra() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'cutedsl = ["nvidia-cutlass-dsl=={installed.RELEASE}"]' in text


def test_its_modules_have_it_as_compiler() -> None:
    assert of_table(TABLE) is COMPILERS["cute_dsl"]
    assert {of(record).suffix for record in TABLE.values()} == {".py"}
    assert {Path(record.source).suffix for record in TABLE.values()} == {".py"}


def test_selection_leaves_its_kernels_to_calls_that_name_them() -> None:
    registry, problem = Registry(), Problem(4096, 4096, 4096)
    records = registry.runnable("gemm", H200.capability)
    assert NAME in {record.name for record in records}
    assert NAME not in {record.name for record in FAMILY.fitting(records, problem)}
    assert FAMILY.legal(registry, records, problem, H200, Tactic(NAME, swizzle=4)).name == NAME


def test_the_entry_gets_the_name_of_the_kernel() -> None:
    ptx = unit.named(PTX, "gemm_x", PARAMETERS)
    assert ".visible .entry gemm_x(" in ptx
    assert "[gemm_x_param_2]" in ptx
    assert "cutlass" not in ptx


@pytest.mark.parametrize("parameters", [PARAMETERS[:2], (*PARAMETERS[:2], "u32"), ("b8[64]", "u64", "f32")])
def test_other_parameters_than_the_host_passes_are_refused(parameters: tuple[str, ...]) -> None:
    with pytest.raises(unit.RefusedError, match=r"expected the parameters .*, got b8\[128\], u64, f32"):
        unit.named(PTX, "gemm_x", parameters)
    with pytest.raises(unit.RefusedError, match="expected one kernel, got 2"):
        unit.named(PTX + PTX, "gemm_x", PARAMETERS)


def test_a_source_key_sees_the_layout_of_python(mini: Mini) -> None:
    """In C++ it is the same whatever the indentation."""
    keys = SourceKeys(ROOT / "runtime" / "include", "4.2.0")
    lines = ["if a:", "    b = 1", "    c = 2"]

    def key(name: str, text: str, **row: str) -> str:
        table = mini.add_source(name, text, suffix=f".{row.get('compiler', 'nvcc')}", **row).table()
        return keys.of(table, table[name])

    text, otherwise = "\n".join(lines), "\n".join([*lines[:2], lines[2].strip()])
    python = {"compiler": "cute_dsl"}
    assert key("first", text, **python) == key("second", text, **python)
    assert key("first", text, **python) != key("third", otherwise, **python)
    assert key("fourth", text) == key("fifth", otherwise)


def test_a_source_key_sees_the_modules_that_a_program_imports(tmp_path: Path) -> None:
    folder = tmp_path / "tilewright" / "family"
    folder.mkdir(parents=True)
    source = b'PROGRAM = "tilewright/family/program.py"\n'

    def keys(part: str) -> tuple[list[str], str]:
        text = "from tilewright_programs.family.part import (\n    number,\n)\n"
        (folder / "program.py").write_text(text, encoding="utf-8")
        (folder / "part.py").write_text(part, encoding="utf-8")
        headers = SourceHeaders(tmp_path)
        return list(headers.reached(source)), headers.including(source)

    names, first = keys("if a:\n    number = 1\n")
    assert names == ["tilewright/family/part.py", "tilewright/family/program.py"]
    assert keys("if a:\n    number = 1\n") == (names, first)
    assert keys("if a:\n  number = 1\n")[1] != first


@needs_cute_dsl
def test_a_kernel_is_built_and_checked(store: Store, tmp_path: Path) -> None:
    """Its machine code is read as that of nvcc's kernels. Two builds make the same bytes."""
    report = build([TABLE], [NAME], store=store, strict=True)
    assert report.ok, report.explain_failures()
    (built,) = report.units
    assert built.data["functions"] == [NAME]
    assert built.data["tensor_instructions"].keys() == {"HGMMA.64x128x16.F32.BF16"}
    assert built.data["grid_dependency"] == {"ACQBULK": 1}
    assert built.data["registers"] == 168
    assert built.data["spill_store_bytes"] == built.data["stack_bytes"] == 0

    other = Store(tmp_path / "again")
    build([TABLE], [NAME], store=other, link_libraries=False)
    objects = [each.entry(built.key) for each in (store, other)]
    assert objects[0] is not None
    assert objects[1] is not None
    assert objects[0].object.read_bytes() == objects[1].object.read_bytes()

    wrong = TABLE[NAME]._replace(instructions=("QGMMA",))
    assert WRONG_PATH in {finding.kind for finding in of(wrong).judge(wrong, built.data, cutlass=False)}
    check_what_it_takes(report.libraries[0].path, TABLE[NAME])


def check_what_it_takes(library: Path, record: KernelRecord) -> None:
    """Its `can_implement`, which callers of the C ABI have alone."""
    loaded = load(library)

    def takes(problem: Problem, tactic: Tactic | None = None, **members: object) -> bool:
        arguments = packed(INTERFACE, problem, tactic or Tactic(record.name), 132)
        values = struct(INTERFACE).from_buffer_copy(arguments)
        for name, value in members.items():
            setattr(values, name, value)
        return loaded.can_implement(record.name, bytes(values))

    assert takes(Problem(77, 136, 72))
    assert not takes(Problem(77, 132, 72))  # TMA stores whole 16 bytes of D
    assert not takes(Problem(77, 136, 72), ld_a=76)
    assert not takes(Problem(77, 136, 72), a=8)
    assert takes(Problem(77, 136, 72), batch_stride_a=3)
    assert not takes(Problem(77, 136, 72, 2), batch_stride_a=3)
    assert not takes(Problem(77, 136, 72), bias=16)
    assert not takes(Problem(77, 136, 72), activation=1)
    assert not takes(Problem(77, 136, 72), beta=1.0, type_c=0)
    assert takes(Problem(77, 136, 72), beta=1.0, type_c=2)
    assert not takes(Problem(77, 136, 72), Tactic(record.name, splits=2))


@needs_cute_dsl
@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ('*("u32",) * 6', '*("u32",) * 5', "expected the parameters"),
        ("def arguments():", "def arguments(count):", "TypeError"),
        ("SHARED_BYTES = 230400", "SHARED_BYTES = 1024", "otherwise than CuTe-DSL"),
    ],
)
def test_a_fault_in_a_program_is_its_kernels(
    mini: Mini, store: Store, before: str, after: str, says: str
) -> None:
    text = TABLE.source(TABLE[NAME]).read_text(encoding="utf-8")
    assert before in text
    row = {"arch": "sm_90a", "compiler": "cute_dsl", "instructions": ["HGMMA"]}
    table = mini.add_source(NAME, text.replace(before, after), suffix=".py", **row).table()
    (failure,) = build([table], store=store, link_libraries=False).units
    assert failure.status == "failed"
    assert f"{NAME}.py: error: " in failure.refusal
    assert says in failure.refusal
