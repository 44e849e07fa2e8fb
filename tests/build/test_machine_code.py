"""Reads the words of nvcc 13.0 and nvdisasm 13.2."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from tilewright.compile.machine_code import Descriptor, FunctionCode, inspect, read_descriptor
from tilewright.compile.nvcc.checks import judge
from tilewright.compile.nvcc.compiler import Nvcc
from tilewright.compile.nvcc.listings import parse_ptxas, parse_sass, sass_functions
from tilewright.compile.report import tensor_families
from tilewright.declarations.table import KernelRecord
from tilewright.errors import BuildError

PTXAS = """\
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to \
the presence of Extern calls in the function 'gemm_a'
ptxas warning : Value of threads per SM for entry gemm_a is out of range. .minnctapersm will be ignored
ptxas info    : 34 bytes gmem, 72 bytes cmem[4]
ptxas info    : Compiling entry function 'gemm_a' for 'sm_90a'
ptxas info    : Function properties for gemm_a
    344 bytes stack frame, 388 bytes spill stores, 392 bytes spill loads
ptxas info    : Used 168 registers, used 17 barriers, 344 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 15.087 ms
ptxas info    : Function properties for _Z5otherPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
"""
SASS = """
	.section	.text.gemm_a,"ax",@progbits
	.headerflags	@"EF_CUDA_ACCELERATORS EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM90)"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                  /* 0x00000a00ff017b82 */
                                                                           /* 0x000fe20000000800 */
        /*00a0*/                   HGMMA.64x8x16.F32.BF16 R24, gdesc[UR8], RZ, !UPT, gsb0 ;  /* 0x0 */
        /*00b0*/              @!P0 HGMMA.64x8x16.F32.BF16 R24, gdesc[UR8], R24, gsb0 ;       /* 0x0 */
        /*00c0*/             @!UP2 UTCOMMA.2CTA.4X gdesc[UR4], gdesc[UR6], tmem[UR8] ;       /* 0x0 */
        /*00d0*/                   OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X R4, R8, R12, R4 ;    /* 0x0 */
        /*00e0*/                   HMMA.16816.F32 R4, R8, R12, R4 ;                          /* 0x0 */
        /*00f0*/                   IMAD.MOV.U32 R3, RZ, RZ, R4 ;           /* 0x0 */
        /*0100*/                   FFMA R3, R3, R4, R5 ;                   /* 0x0 */
        /*0110*/                   ACQBULK ;                               /* 0x0 */
        /*0120*/               @P1 PREEXIT ;                               /* 0x0 */
"""


def test_ptxas() -> None:
    actual = parse_ptxas(PTXAS)
    function = actual.functions["gemm_a"]
    assert (function.registers, function.barriers, function.static_smem_bytes) == (168, 17, 1024)
    assert (function.stack_bytes, function.spill_store_bytes, function.spill_load_bytes) == (344, 388, 392)
    assert [warning["code"] for warning in actual.warnings] == ["C7510", ""]


def test_sass() -> None:
    function = parse_sass(sass_functions(SASS)["gemm_a"])
    assert function.code_bytes == 0x130
    assert function.tensor_instructions == {
        "HGMMA.64x8x16.F32.BF16": 2,
        "UTCOMMA.2CTA.4X": 1,
        "OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X": 1,
        "HMMA.16816.F32": 1,
    }
    assert function.grid_dependency == {"ACQBULK": 1, "PREEXIT": 1}


def test_no_object(tmp_path: Path) -> None:
    (tmp_path / "x.o").write_bytes(b"not an object")
    with pytest.raises(BuildError, match="not a 64-bit"):
        read_descriptor(tmp_path / "x.o", "x")


def compiled(folder: Path, text: str) -> Path:
    """An object of C++ on the host."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not installed")
    source = folder / "x.cc"
    source.write_text(text)
    subprocess.run([compiler, "-c", source, "-o", folder / "x.o"], check=True)
    return folder / "x.o"


DEFINED = """
struct kernel { int abi_version, args_bytes, threads, smem_bytes; };
extern "C" kernel tilewright_other, tilewright_one;
kernel tilewright_one = {1, 128, 256, 1024};
kernel* used = &tilewright_other;
"""


def test_a_descriptor_is_one_that_the_object_defines(tmp_path: Path) -> None:
    path = compiled(tmp_path, DEFINED)
    assert read_descriptor(path, "one") == Descriptor(1, 128, 256, 1024)
    assert read_descriptor(path, "other") is None, "it only refers to it"
    assert read_descriptor(path, "on") is None
    with pytest.raises(BuildError, match="its object does not define tilewright_other"):
        inspect(path, "other", {})


TWO = """\
ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 2 barriers, 16 bytes cumulative stack size, 2048 bytes smem
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for second
    8 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 8 bytes cumulative stack size, 1024 bytes smem
"""


def test_the_numbers_of_several_functions(tmp_path: Path) -> None:
    """The largest of what a function has for itself, and sums of what is counted."""
    sass = {"first": FunctionCode(16, Counter(HGMMA=1)), "second": FunctionCode(32, Counter(HGMMA=2, HMMA=1))}
    resources = parse_ptxas(TWO).functions.values()
    actual = inspect(compiled(tmp_path, DEFINED), "one", sass, resources)
    assert (actual["registers"], actual["barriers"]) == (168, 2)
    assert (actual["static_smem_bytes"], actual["stack_bytes"]) == (2048, 16)
    assert (actual["spill_store_bytes"], actual["spill_load_bytes"]) == (16, 28)
    assert (actual["code_bytes"], actual["tensor_instructions"]) == (48, {"HGMMA": 3, "HMMA": 1})
    assert (actual["threads"], actual["smem_bytes"], actual["functions"]) == (256, 1024, ["first", "second"])


def record(*instructions: str, **facts: int) -> KernelRecord:
    return KernelRecord("k", "k.cu", "", "sm_90a", (), instructions, {}, facts)


def report(opcodes: Mapping[str, int], **changed: object) -> dict[str, object]:
    sound = {"warnings": [], "spill_store_bytes": 0, "spill_load_bytes": 0, "stack_bytes": 0}
    return {"tensor_instructions": opcodes, "threads": 128, "smem_bytes": 7, **sound, **changed}


@pytest.mark.parametrize(
    ("instructions", "opcodes", "right"),
    [
        (["HGMMA"], {"HGMMA.64x8x16.F32.BF16": 8}, True),
        (["HGMMA"], {"HMMA.16816.F32": 8}, False),  # the warp-level path of sm_80
        (["HGMMA"], {}, False),
        (["HMMA"], {"UTCHMMA.2CTA": 8}, False),  # the pattern stands within another opcode
        (["QGMMA"], {"HGMMA.64x8x16.F32": 8}, False),
        ([r"UTCOMMA\.2CTA"], {"UTCOMMA.4X": 8}, False),
        ([r"UTCOMMA\.2CTA\.4X"], {"UTCOMMA.2CTA.4X": 8}, True),
        ([r"UTCOMMA\.4X"], {"UTCOMMA.2CTA.4X": 8}, False),  # two CTAs where one is wanted
        (["UTCOMMA"], {"UTCOMMA.2CTA.4X": 8}, True),  # a start of the opcode is all that is asked
        (["UTCOMMA$"], {"UTCOMMA.4X": 8}, False),  # blocks of 16 where blocks of 32 are wanted
        (["UTCOMMA$"], {"UTCOMMA": 8}, True),
        ([r"OMMA\.SF"], {"OMMA.SF.16864.F32.E2M1.E2M1.E8": 8}, True),
        ([r"OMMA\.SF.*\.UE4M3\.4X"], {"OMMA.SF.16864.F32.E2M1.E2M1.E8": 8}, False),
        ([r"QMMA\.SF"], {"QMMA.16832.F32.E4M3.E4M3": 8}, False),  # without scales
        (["HGMMA", "QGMMA"], {"HGMMA.64x8x16.F32": 8}, False),
        (["[HQ]GMMA"], {"QGMMA.64x8x32.F32.E4M3.E4M3": 8}, True),
        ([], {}, True),
    ],
)
def test_every_expected_instruction_must_be_there(
    instructions: list[str], opcodes: dict[str, int], right: bool
) -> None:
    findings = judge(record(*instructions), report(opcodes))
    assert [finding.kind for finding in findings] == ([] if right else ["wrong_path"])
    assert all(finding.fatal(strict=False) for finding in findings)


@pytest.mark.parametrize("pdl", [True, False])
@pytest.mark.parametrize("found", [{"ACQBULK": 2, "PREEXIT": 1}, {"PREEXIT": 1}, {}])
def test_a_kernel_that_may_start_early_must_wait(pdl: bool, found: dict[str, int]) -> None:
    """Its launch has the attribute: without the instruction it reads what is not written yet."""
    asked = record()._replace(config={"pdl": pdl})
    findings = judge(asked, report({}, grid_dependency=found))
    assert [finding.kind for finding in findings] == (["no_wait"] if pdl and "ACQBULK" not in found else [])
    assert all(finding.fatal(strict=False) for finding in findings)


def test_a_record_keeps_what_tells_paths_apart() -> None:
    actual = tensor_families(
        {
            "HGMMA.64x8x16.F32.BF16": 2,
            "HGMMA.64x16x16.F32.BF16": 3,
            "UTCOMMA.2CTA.BLOCK16": 4,
            "UTCOMMA.4X": 5,
            "UTCQMMA": 6,
            "OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X": 7,
            "QMMA.16832.F32.E4M3.E4M3": 8,
        }
    )
    assert actual == {
        "HGMMA": 5,
        "UTCOMMA.2CTA.BLOCK16": 4,
        "UTCOMMA.4X": 5,
        "UTCQMMA": 6,
        "OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X": 7,
        "QMMA": 8,
    }


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"warnings": parse_ptxas(PTXAS).warnings}, "serialized_mma"),
        ({"warnings": parse_ptxas(PTXAS.replace("C7510", "C7520")).warnings}, "serialized_mma"),
        ({"spill_load_bytes": 4, "stack_bytes": 8}, "spills"),
        ({"stack_bytes": 8}, "stack"),
        ({"smem_bytes": 8}, "facts"),
        ({"threads": 129}, "facts"),
    ],
)
def test_what_costs_speed_fails_only_a_strict_build(changed: dict[str, object], kind: str) -> None:
    (finding,) = judge(record(smem_bytes=7, threads=128), report({}, **changed))
    assert finding.kind == kind
    assert finding.fatal(strict=True)
    assert not finding.fatal(strict=False)


def test_spills_that_a_family_gives_a_reason_for_fail_nothing() -> None:
    spilling = report({}, spill_load_bytes=4, stack_bytes=8)
    (finding,) = judge(record()._replace(spills="128 accumulators"), spilling)
    assert finding.kind == "known_spills"
    assert "128 accumulators" in finding.message
    assert not finding.fatal(strict=True)


def test_the_first_errors_come_with_their_context() -> None:
    log = "noise\nx.cu(3): error: one\n    context\n      ^\n" + "".join(
        f"x.cu({line}): error: more\n" for line in range(9)
    )
    actual = Nvcc().errors(log)
    assert actual[0] == "x.cu(3): error: one\n    context\n      ^"
    assert len(actual) == 3
    assert Nvcc().errors("ptxas info : x\nodd\n") == ["odd"]
    assert Nvcc().errors("nvcc fatal   : Unsupported gpu architecture 'compute_99'") != []
    assert Nvcc().errors("") == []
