"""What docs/adding_a_family.md says of families' declarations, and of what is written beside them by hand."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from tilewright.calls.op import Op
from tilewright.declarations import catalog
from tilewright.declarations.arguments import packed, struct
from tilewright.declarations.declaration import Interface, Matrix
from tilewright.declarations.tactics import Tactic
from tilewright.formats.types import bits

ROOT = Path(__file__).resolve().parents[2]
DECLARED = ("grouped_gemm", "mqa_logits", "hc_prenorm")
WRITTEN = {"__init__.py", "interface.py"}  # what a declaration is, and the names of the ops
ALIKE = {  # files that each of them has, by hand
    "runtime/tilewright/families": {
        "problem.py", "vocabulary.py", "family.py", "cost.py", "measuring.py", "op.py",
        "config.py", "kernel.py", "rules.py",
    },
}  # fmt: skip
OTHERS = {
    "hc_prenorm": {"memory.py", "reference.py"},
    "grouped_gemm": {
        "call.py",
        "cost_mma.py",
        "cost_tcgen05.py",
        "learnt.py",
        "mainloops.py",
        "memory.py",
        "tcgen05.py",
        "tcgen05_plain.py",
    },
    "mqa_logits": set(),
}


def section() -> str:
    page = (ROOT / "docs/adding_a_family.md").read_text(encoding="utf-8")
    _, _, rest = page.partition("\n## Three declarations\n")
    assert rest
    return rest.partition("\n## ")[0]


def interface(family: str) -> Interface:
    actual: Interface = catalog.family_module(family, "interface").INTERFACE
    return actual


def quoted(text: str) -> list[str]:
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return re.findall(r"`([^`]+)`", prose)


def row(family: str) -> tuple[list[str], list[str]]:
    """What the page's table says is declared, and what by hand."""
    (line,) = (line for line in section().splitlines() if line.startswith(f"| `{family}` |"))
    _, declared, by_hand = line.strip("|").split("|")
    return quoted(declared), quoted(by_hand)


def methods(family: str) -> set[str]:
    """The methods of `Op` that a family's ops override."""
    classes = [kind for kind in vars(catalog.family_module(family, "op")).values() if inspect.isclass(kind)]
    own = [kind for kind in classes if issubclass(kind, Op) and kind is not Op]
    assert own
    of_op = {name for name, value in vars(Op).items() if callable(value) or name == "flops"}
    return {name for kind in own for name in vars(kind) if name in of_op and not name.startswith("__")}


def test_methods_that_families_override_are_told_and_those_told_are_there() -> None:
    page = (ROOT / "docs/adding_a_family.md").read_text(encoding="utf-8")
    table = page.partition("| method | |\n|---|---|\n")[2].partition("\n\n")[0]
    on_page = {name for line in table.splitlines() for name in quoted(line.split("|")[1])}
    assert {*on_page} <= {*dir(Op)}
    assert {name for family in catalog.names() for name in methods(family)} <= on_page


def test_the_declaration_that_is_shown_is_the_family_s() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", section(), re.DOTALL)
    source = (ROOT / "runtime/tilewright/families/hc_prenorm/interface.py").read_text(encoding="utf-8")
    assert shown.startswith("INTERFACE = Interface(")
    assert source.endswith(shown), "docs/adding_a_family.md shows another declaration"


def test_the_page_leads_to_every_declaration() -> None:
    links = re.findall(r"\]\(\.\./([^)]+/interface\.py)\)", section())
    assert set(links) == {f"runtime/tilewright/families/{family}/interface.py" for family in DECLARED}
    assert all((ROOT / link).is_file() for link in links)


@pytest.mark.parametrize("family", DECLARED)
def test_what_is_declared_and_what_is_by_hand(family: str) -> None:
    declared, by_hand = row(family)
    actual = interface(family)
    assert declared == [*actual.names, *(number.name for number in actual.numbers)]
    assert by_hand == sorted(methods(family))


@pytest.mark.parametrize("family", DECLARED)
def test_files_by_hand(family: str) -> None:
    """A family has the files that the page names, and no others."""
    on_page = set(quoted(section()))
    actual: set[str] = set()
    for folder, alike in ALIKE.items():
        here = {path.name for path in (ROOT / folder / family).glob("*.py")} - WRITTEN
        assert alike <= here
        actual |= here - alike
        assert alike <= on_page
    assert actual == OTHERS[family]
    assert actual <= on_page
    assert list((ROOT / "templates" / family).glob("*.j2"))
    device = {path.name for path in (ROOT / "runtime/include/tilewright" / family).iterdir()}
    assert len(device) > 1
    assert "args.h" in device


PROBLEMS: dict[str, dict[str, Any]] = {  # words that are not the usual ones
    "grouped_gemm": {"grouping": "row_index"},
    "mqa_logits": {"form": "paged"},
    "hc_prenorm": {},
}


@pytest.mark.parametrize("family", DECLARED)
def test_the_struct_follows_from_the_declaration(family: str) -> None:
    """Extents and codes are the problem's; matrices lie without gaps, rows of whole 16 bytes."""
    words, actual = catalog.words_of(family), interface(family)
    problem = words.make(words.example, PROBLEMS[family])
    arguments = struct(actual).from_buffer_copy(packed(actual, problem, Tactic("kernel", splits=4), 132))
    expected = {name: getattr(problem, name) for name in actual.extents}
    expected |= {code.name: code.value(problem) for code in actual.codes}
    for matrix in (operand for operand in actual.operands if isinstance(operand, Matrix)):
        rows, columns = matrix.shape(problem)
        inner = columns if matrix.inner(problem) == "columns" else rows
        unit = max(1, 8 * matrix.alignment // bits(matrix.type_of(problem)))
        expected[f"ld_{matrix.field}"] = -(-inner // unit) * unit
    assert {member: getattr(arguments, member) for member in expected} == expected
    assert arguments.tactic.sm_count == 132
