"""Races that the build finds in machine code: arrivals that overtake loads, and accesses before
griddepcontrol.wait."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tilewright.compile.commands import OBJECT
from tilewright.compile.nvcc.checks import exceptions, judge
from tilewright.compile.nvcc.disassembly import disassemble
from tilewright.compile.nvcc.sass_hazards import EARLY_ACCESS, EARLY_RELEASE, Hazard, Place, find_hazards
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.declarations.table import KernelRecord

SOURCE = Path(__file__).parents[1] / "compile/sass_hazards.cu"
INCLUDE = Path(__file__).parents[2] / "runtime/include"
ARRIVE = "SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R2+URZ+0x8], RZ"
EXPECTED = {
    "released_early": {EARLY_RELEASE},
    "released": set(),
    "reads_early": {EARLY_ACCESS},
    "reads_early_on_one_path": {EARLY_ACCESS},
    "reads": set(),
    "never_waits": set(),
}


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a"])
def test_compiled_kernels(toolchain: NvccToolchain, tmp_path: Path, arch: str) -> None:
    flags = [f"-ccbin={toolchain.host[0]}", f"-arch={arch}", "-std=c++17", f"-I{INCLUDE}", "-c", "-o", OBJECT]
    subprocess.run([str(toolchain.nvcc), *flags, str(SOURCE)], cwd=tmp_path, check=True)
    (code,) = disassemble(str(toolchain.cuobjdump), [tmp_path / OBJECT])
    kinds = {
        name: {hazard["kind"] for hazard in function.hazards} for name, function in code.functions.items()
    }
    assert kinds == EXPECTED
    for name, function in code.functions.items():
        for hazard in function.hazards:
            early = "SYNCS.ARRIVE" if hazard["kind"] == EARLY_RELEASE else "STG" if "path" in name else "LDG"
            opcodes = {str(each["opcode"]).split(".TRANS")[0].split(".E")[0] for each in function.hazards}
            assert early in opcodes, hazard


class Line(NamedTuple):
    """An instruction: nvdisasm's words (behind a label, if there is one), the scoreboard that its result
    releases, and those that it waits for."""

    text: str
    result: int = 7
    waits: Sequence[int] = ()


def hazards(*lines: Line | str) -> list[Hazard]:
    text, code = "", b""
    for line in (Line(each) if isinstance(each, str) else each for each in lines):
        *labels, instruction = re.split(r":\s*", line.text)
        text += "".join(f"{label}:\n" for label in labels)
        text += f"        /*{len(code):04x}*/                   {instruction} ;\n"
        control = 1 | line.result << 5 | 7 << 8 | sum(1 << board for board in line.waits) << 11
        code += struct.pack("<QQ", 0, control << 41)
    return find_hazards(text, code)


LOAD = Line("LDS.128 R4, [UR6+0x38070]", 0)
USE = Line("FADD R4, R4, R5", waits=[0])


@pytest.mark.parametrize(
    ("lines", "loads"),
    [
        ([LOAD, ARRIVE, USE], [0]),
        ([LOAD, USE, ARRIVE], []),
        ([LOAD, Line(ARRIVE, waits=[0])], []),  # the arrival waits itself
        ([LOAD, Line(ARRIVE, waits=[1])], [0]),
        ([LOAD, Line("DEPBAR.LE SB0, 0x0"), ARRIVE], []),
        ([LOAD, Line("DEPBAR.LE SB0, 0x1"), ARRIVE], [0]),
        ([LOAD, "MEMBAR.ALL.CTA", "FENCE.VIEW.ASYNC.S", ARRIVE], []),
        ([LOAD, "FENCE.VIEW.ASYNC.S", "BAR.SYNC.DEFER_BLOCKING 0x7, 0x100", ARRIVE], [0]),
        ([LOAD, Line("LDSM.16.M88.4 R8, [R3]", 1), USE, ARRIVE], [0x10]),
        ([LOAD, Line("LDS R8, [R3]", 0), USE, ARRIVE], []),  # two loads of a scoreboard
        ([LOAD, Line("@!P2 " + ARRIVE)], [0]),
        ([LOAD, "SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [R2+URZ], RZ"], [0]),  # another thread block's barrier
        ([LOAD, "SYNCS.ARRIVE.TRANS64.ART0 RZ, [R2+URZ], R3"], [0]),
        ([LOAD, "SYNCS.ARRIVE.TRANS64 RZ, [R2+URZ], R3"], []),  # bytes that a copy will bring
        ([LOAD, "SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [R2+URZ], R3"], []),
        ([LOAD, "WARPGROUP.ARRIVE"], []),
        ([LOAD, ARRIVE, ARRIVE], [0]),  # told once
        ([Line("LDG.E R4, desc[UR4][R2.64]", 0), ARRIVE], []),
        ([Line("LDS RZ, [R2]"), ARRIVE], []),  # nobody takes what it brings
        # A branch around the use, to the use, past the arrival.
        ([LOAD, "@P0 BRA `(.L_x_0)", USE, ".L_x_0: " + ARRIVE], [0]),
        ([LOAD, "BRA `(.L_x_0)", ARRIVE, ".L_x_0: " + USE.text], []),
        ([LOAD, "BRA.U UP0, `(.L_x_0)", USE, ".L_x_0: " + ARRIVE], [0]),
        ([LOAD, "BRA.DIV UR4, `(.L_x_0)", USE, ".L_x_0: " + ARRIVE], [0]),
        ([LOAD, "@P0 EXIT", USE, ARRIVE], []),
        ([LOAD, "EXIT", ".L_x_0: " + ARRIVE], []),
        # In the next round of a loop.
        ([".L_x_0: " + ARRIVE, LOAD, "@P0 BRA `(.L_x_0)", USE], [0x10]),
        ([".L_x_0: " + ARRIVE, LOAD, USE, "@P0 BRA `(.L_x_0)"], []),
        # Threads that part meet again behind BSYNC.
        ([LOAD, "BSSY B0, `(.L_x_1)", "@P0 BRA `(.L_x_0)", USE, ".L_x_0: BSYNC B0",
          ".L_x_1: " + ARRIVE], [0]),
        ([LOAD, "BSSY B0, `(.L_x_1)", "@P0 BRA `(.L_x_0)", ".L_x_0: BSYNC B0",
          Line(".L_x_1: FADD R4, R4, R5", waits=[0]), ARRIVE], []),
        ([LOAD, "CALL.REL.NOINC `(.L_x_0)", USE, "EXIT", ".L_x_0: " + ARRIVE, "RET.REL.NODEC R4 `(f)"], [0]),
        # A call goes on behind it: what another call left under way is nothing to it.
        ([Line("CALL.REL.NOINC `($__internal_0_$f)"), USE, ARRIVE, "EXIT", LOAD,
          "CALL.REL.NOINC `($__internal_0_$f)", USE, "EXIT", "$__internal_0_$f: RET.REL.NODEC R4 `(g)"], []),
        ([LOAD, "CALL.REL.NOINC `($__internal_0_$f)", USE, "EXIT", "$__internal_0_$f: " + ARRIVE], [0]),
        ([LOAD, "BRX R2 -0x30", USE, "EXIT", ".L_x_0: " + ARRIVE], [0]),  # to wherever there is a label
    ],
)  # fmt: skip
def test_early_releases(lines: list[Line | str], loads: list[int]) -> None:
    actual = hazards(*lines, "EXIT")
    assert [place.address for hazard in actual for place in hazard.others] == loads
    assert {hazard.kind for hazard in actual} <= {EARLY_RELEASE}


@pytest.mark.parametrize(
    ("lines", "early"),
    [
        (["LDG.E R4, desc[UR4][R2.64]", "ACQBULK"], [0]),
        (["ACQBULK", "LDG.E R4, desc[UR4][R2.64]"], []),
        (["LDG.E R4, desc[UR4][R2.64]"], []),  # no launch of it begins early
        (["@P0 BRA `(.L_x_0)", "ACQBULK", ".L_x_0: STG.E desc[UR4][R2.64], R4"], [0x20]),
        (["@P0 ACQBULK", "STG.E desc[UR4][R2.64], R4"], [0x10]),
        (["@P0 EXIT", "ACQBULK", "STG.E desc[UR4][R2.64], R4"], []),
        *(
            ([f"{opcode} [UR4]", "ACQBULK"], [0])
            for opcode in (
                "LD.E.128", "ST.E", "LDGSTS.E.128", "ATOMG.E.ADD", "REDG.E.ADD", "UTMALDG.3D", "UTMASTG.3D",
                "UTMAREDG.3D.ADD", "UBLKCP.S.G", "ATOM.E.ADD", "RED.E.ADD",
            )
        ),
        *(
            ([f"{opcode} [UR4]", "ACQBULK"], [])
            for opcode in (
                "UTMACCTL.PF", "LDC.64", "LDS", "STS.128", "ATOMS.ADD", "LDL", "STL", "LDCU", "CCTL.IVALL",
            )
        ),
    ],
)  # fmt: skip
def test_early_accesses(lines: list[str], early: list[int]) -> None:
    actual = [hazard for hazard in hazards(*lines, "EXIT") if hazard.kind == EARLY_ACCESS]
    assert [place.address for hazard in actual for place in (hazard.early, *hazard.others)] == early


def test_messages_name_both_instructions() -> None:
    loads = tuple(Place("LDS.128", 0xD60 + i * 16) for i in range(9))
    release = Hazard(EARLY_RELEASE, Place("SYNCS.ARRIVE.TRANS64.A1T0", 0xEF0), loads[:2])
    assert str(release) == (
        "SYNCS.ARRIVE.TRANS64.A1T0 at 0ef0 arrives before LDS.128 at 0d60, LDS.128 at 0d70 returned"
    )
    assert "LDS.128 at 0dd0 and 1 more loads returned" in str(release._replace(others=loads))
    access = Hazard(EARLY_ACCESS, Place("LDG.E", 0x10), ())
    assert str(access) == "LDG.E at 0010 can run before ACQBULK"
    assert str(access._replace(others=loads)) == "LDG.E at 0010, and 9 more, can run before ACQBULK"


RELEASE = {
    "kind": EARLY_RELEASE,
    "function": "f",
    "opcode": "SYNCS.ARRIVE.TRANS64.A1T0",
    "message": "overtakes",
}
ACCESS = {"kind": EARLY_ACCESS, "function": "f", "opcode": "LDG.E", "message": "early"}
COPY = {**ACCESS, "opcode": "UTMALDG.3D"}


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100f", "sm_103a", "sm_110a", "sm_120f"])
@pytest.mark.parametrize(
    ("hazard", "pdl", "cutlass", "outcome"),
    [
        (RELEASE, True, False, "finding"),
        (RELEASE, False, False, "finding"),
        (RELEASE, True, True, "finding except on sm_12x"),
        (ACCESS, True, False, "finding"),
        (ACCESS, False, False, ""),  # it starts when the kernel before it has ended
        (ACCESS, True, True, "exception"),
        (COPY, True, True, "finding"),
        (COPY, True, False, "finding"),
    ],
)
def test_what_a_build_makes_of_a_hazard(
    arch: str, hazard: dict[str, str], pdl: bool, cutlass: bool, outcome: str
) -> None:
    if outcome == "finding except on sm_12x":
        outcome = "exception" if arch == "sm_120f" else "finding"
    record = KernelRecord("k", "k.cu", "", arch, (), (), {"pdl": pdl}, {})
    sound = {"warnings": [], "spill_store_bytes": 0, "spill_load_bytes": 0, "stack_bytes": 0}
    report = {"tensor_instructions": {}, "grid_dependency": {"ACQBULK": 1}, **sound, "hazards": [hazard]}
    findings = judge(record, report, cutlass)
    assert [(finding.kind, finding.message) for finding in findings] == (
        [(hazard["kind"], f"in f, {hazard['message']}")] if outcome == "finding" else []
    )
    assert all(finding.fatal(strict=True) and not finding.fatal(strict=False) for finding in findings)
    excepted = exceptions(record, report, cutlass)
    assert bool(excepted) == (outcome == "exception")
    assert all("CUTLASS" in each["reason"] for each in excepted)
