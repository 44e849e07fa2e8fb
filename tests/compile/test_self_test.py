"""The self-test of instruction forms, on the host: mma.sync in software takes the GPU's place.

With the software as it is nothing is wrong; with a fault in one of its layouts, or in a bit of what the
kernel reads, the self-test names the operand, the row, the place along k and the bit. The kernels
themselves are compiled, and hold the instruction that they are for.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from host_programs import ROOT, compiled

from tilewright.architectures.table import ARCHITECTURES
from tilewright.compile.nvcc.toolchain import find_toolchain
from tilewright.compile.store import Store
from tilewright.tools.self_test import forms, running, sources
from tilewright.tools.self_test.forms import Form, Load
from tilewright.tools.self_test.probes import LoadProbes, ProductProbes, probes_of

HERE = Path(__file__).resolve().parent
DEFINITION = "tilewright/sm120/mma_definition.hpp"
MMA_FORMS = [form for form in forms.of_arch("sm_120f") if isinstance(form, Form)]
LOADS = [form for form in forms.of_arch("sm_120f") if isinstance(form, Load)]
Words = Sequence[Sequence[int]]


def software(old: str = "", new: str = "") -> ctypes.CDLL:
    """mma.sync in software, with `new` in place of a text of its definition."""
    text = (ROOT / "runtime/include" / DEFINITION).read_text()
    assert not old or text.count(old) == 1
    options = ["-std=c++17", "-O1", "-fPIC", f"-I{ROOT / 'runtime/include'}"]
    files = {DEFINITION: text.replace(old, new)} if old else {}
    source = HERE / "sm120_mma.cc"
    return ctypes.CDLL(str(compiled("sm120_mma", [source], options, link=["-shared"], files=files)))


def by_software(library: ctypes.CDLL, form: Form, words: Words) -> list[list[int]]:
    """What the kernel of a form answers, if the library's product is the instruction's."""
    types = [name.removesuffix("_in_bytes") for name in (form.a, form.b)]
    name = {"e2m1 2": "mxf4", "e2m1 4": "nvf4"}.get(f"{form.a} {form.blocks}")
    if name is None:
        name = ("mx_" if form.blocks else "") + (
            "_".join(types) if types[0] not in ("bf16", "f16", "s8") else types[0]
        )
    results = []
    for probe in words:
        parts = [(ctypes.c_uint32 * count)(*probe[first : first + count]) for first, count in (
            (192, 128), (0, 128), (128, 64), (320, 32), (352, 32))]  # fmt: skip
        selection = form.selections[probe[384]] if form.selections else (0, 0, 0, 0)
        getattr(library, name)(*parts, *selection)
        results.append(list(parts[0]))
    return results


def faults_of(
    form: Form, library: ctypes.CDLL, change: Callable[[list[int]], None] | None = None
) -> list[str]:
    """What the self-test says. `change` alters what the kernel reads of each probe."""
    probes = probes_of(form)
    words = [list(probe) for probe in probes.words()]
    for probe in words if change else []:
        change(probe)
    return probes.faults(by_software(library, form, words))


def form_of(text: str) -> Form:
    return next(form for form in MMA_FORMS if text in form.name)


@pytest.mark.parametrize("form", MMA_FORMS, ids=lambda form: form.name)
def test_nothing_is_wrong_with_the_definition(form: Form) -> None:
    assert faults_of(form, software()) == []


class Wrong(NamedTuple):
    """A fault of the definition, and a line with which the self-test of a form names it."""

    form: str
    old: str
    new: str
    line: str


ALL_AT_FIRST = "(bytes 0 and 0, threads 0 and 0)"
WRONG = [
    Wrong(
        "bf16 x bf16",
        "lanes.a(row % 8 * 4 + word % 4, word / 4 * 2 + i / 2)",
        "lanes.a(row % 8 * 4 + word % 4, word / 4 + i / 2 * 2)",
        "A, row 0, k 8: got the element of row 8, k 0",
    ),
    Wrong(
        "e4m3 x e5m2",
        "lanes.b(column * 4 + word % 4, word / 4)",
        "lanes.b(column * 4 + word % 4, 1 - word / 4)",
        "B, column 0, k 0: got the element of column 0, k 16",
    ),
    Wrong(
        "s8 x s8",
        "row % 8 * 4 + word % 4, word",
        "row % 8 * 4 + (word ^ 1) % 4, word",
        "A, row 0, k 0: got the element of row 0, k 4",
    ),
    Wrong(
        "2X ue8m0",
        "int const block = word / kWordsOfBlock;",
        "int const block = 1 - word / kWordsOfBlock;",
        f"scale factors of A {ALL_AT_FIRST}, row 0, block 0: got the element of row 0, block 1",
    ),
    Wrong(
        "4X ue4m3",
        "return column * 4 + thread; }",
        "return (column ^ 1) * 4 + thread; }",
        f"scale factors of B {ALL_AT_FIRST}, column 0, block 0: got the element of column 1, block 0",
    ),
    Wrong(
        "1X ue8m0",
        "source.b_byte",
        "source.a_byte",
        "scale factors of B (bytes 1 and 3, threads 1 and 1), column 0, block 0: expected ",
    ),
    Wrong("e4m3 x e2m1", "Code<E2m1>::value(bits >> 2)", "Code<E2m1>::value(bits >> 1)", "B, column 0, k "),
    Wrong(
        "f16 x f16",
        "static_cast<typename Form::Sum>(d[i] + sum)",
        "static_cast<typename Form::Sum>(sum)",
        "sums, row 0, column 0: expected ",
    ),
    Wrong(
        "e5m2 x e5m2",
        "double const magnitude = exponent == 0 ?",
        "double const magnitude = exponent <= 1 ?",
        "A, row ",
    ),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.form)
def test_a_wrong_layout_is_named(wrong: Wrong) -> None:
    faults = faults_of(form_of(wrong.form), software(wrong.old, wrong.new))
    assert any(fault.startswith(wrong.line) for fault in faults), faults


def test_a_wrong_bit_is_named() -> None:
    """Lane 5 has row 1 of A; its second element of the first word is k 5. Bit 3 of it is flipped."""

    def flip(words: list[int]) -> None:
        words[5 * 4] ^= 1 << 8 + 3

    assert "A, row 1, k 5: bit 3 is wrong" in faults_of(form_of("e4m3 x e4m3, 1X"), software(), flip)


def test_a_stuck_element_is_named() -> None:
    """Lane 31 has column 7 of B; its last element of FP4 always arrives as 0."""

    def clear(words: list[int]) -> None:
        words[128 + 31 * 2 + 1] &= 0x0FFFFFFF

    faults = faults_of(form_of("4X ue4m3"), software(), clear)
    assert any(re.fullmatch(r"B, column 7, k 63: expected \S+, got -?0", fault) for fault in faults), faults


def test_faults_of_a_whole_operand_are_counted() -> None:
    faults = faults_of(form_of("bf16"), software("lane % 4 * 2 + i % 2", "lane % 4 * 2 + 1 - i % 2"))
    assert "A: 252 more elements" in faults  # of 16 x 16, four are shown


@pytest.mark.parametrize("form", LOADS, ids=lambda form: form.name)
def test_loads(form: Load) -> None:
    """PTX ISA, "ldmatrix": thread t gives the address of row t % 8 of matrix t / 8, and gets 4 bytes of row
    t / 4 of each matrix; with `.trans`, of column t / 4. With `b4x16_p64` a row has 16 elements of 4 bits in
    its first 8 bytes."""
    probes = probes_of(form)
    results = []
    for words in probes.words():
        data = b"".join(word.to_bytes(4, "little") for word in words)
        result = []
        for lane in range(32):
            for matrix in range(4):
                row = data[matrix * 128 + lane // 4 * 16 :][:16]
                if form.places == "rows":
                    part = row[lane % 4 * 4 :][:4]
                elif form.places == "transposed":
                    column = [data[matrix * 128 + i * 16 + lane // 4 * 2 :][:2] for i in range(8)]
                    part = column[lane % 4 * 2] + column[lane % 4 * 2 + 1]
                else:
                    pair = row[lane % 4 * 2 :][:2]
                    part = bytes(nibble for byte in pair for nibble in (byte & 15, byte >> 4))
                result.append(int.from_bytes(part, "little"))
        results.append(result)
    assert probes.faults(results) == []
    results[1][37] ^= 1 << 11
    assert probes.faults(results)[0].startswith("lane 9, matrix 1: bit 11 is wrong: ")


def test_every_form_has_a_kernel_of_its_own() -> None:
    assert len({form.kernel for form in forms.FORMS}) == len(forms.FORMS)
    for form in forms.FORMS:
        probes = probes_of(form)
        assert isinstance(probes, ProductProbes if isinstance(form, Form) else LoadProbes)
        assert {len(words) for words in probes.words()} == {form.operand_words}


def test_targets_by_gpu() -> None:
    families = {
        "sm_90a": [(9, 0)], "sm_100f": [(10, 0), (10, 3), (10, 7)], "sm_110f": [(11, 0)],
        "sm_120f": [(12, 0), (12, 1)],
    }  # fmt: skip
    expected = {capability: [arch] for arch, those in families.items() for capability in those}
    actual = {each.capability: running.targets_on(each.capability) for each in ARCHITECTURES}
    assert actual == expected
    assert running.targets_on((8, 0)) == []


def test_thor_has_the_forms_of_a_b200() -> None:
    thor, b200 = ([form.name for form in forms.of_arch(arch)] for arch in ("sm_110f", "sm_100f"))
    assert thor == b200


def test_sources_are_a_module() -> None:
    files = sources.files_of("sm_120f")
    kernels = [form.kernel for form in forms.of_arch("sm_120f")]
    assert sorted(files) == sorted([*(f"{kernel}.cu" for kernel in kernels), "table.cc", "table.json"])
    assert all(f"X({kernel})" in files["table.cc"] for kernel in kernels)


@pytest.mark.compile
@pytest.mark.parametrize("arch", forms.ARCHITECTURES)
def test_kernels_hold_their_instruction(arch: str) -> None:
    """HMMA, QMMA, OMMA, IMMA, HGMMA, QGMMA of the form's own types and factors, UTC*MMA, and LDSM."""
    report = running.build_for(arch)
    report.raise_for_failures()
    assert (report.problems, len(report.libraries)) == ([], 1)
    units = {unit.name: unit for unit in report.units}
    for form in forms.of_arch(arch):
        unit = units[form.kernel]
        assert unit.findings == []
        if isinstance(form, Form):
            opcodes = unit.data["tensor_instructions"]
            assert all(re.match(form.opcode, opcode) for opcode in opcodes), (form.name, opcodes)
        else:
            entry = Store().entry(unit.key)
            assert entry is not None
            assert re.search(form.opcode, machine_code(entry.object)), form.name


def machine_code(path: Path) -> str:
    command = [str(find_toolchain().cuobjdump), "-sass", str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
