"""Enums that Python and C have: one order, the same numbers."""

from __future__ import annotations

import re

import pytest

from tilewright.base import paths
from tilewright.declarations import catalog, tactics
from tilewright.declarations.codes import Codes
from tilewright.declarations.declaration import Interface
from tilewright.declarations.headers import definition, path_of
from tilewright.declarations.matrix_tactic import MATRIX_TACTIC

INCLUDE = paths.include_dir() / "tilewright"


def enum(text: str, name: str) -> dict[str, int]:
    """An enum's members as a header has them, without what their names begin with alike."""
    actual = re.search(rf"^typedef enum {name} {{\n(.*?)^}} {name};$", text, re.MULTILINE | re.DOTALL)
    assert actual, f"there is no enum {name}"
    code = re.sub(r"//.*", "", actual[1])
    return {member: int(value) for member, value in re.findall(r"(\w+) = (\d+),", code)}


CODES = [
    pytest.param(family, codes, id=codes.name)
    for family in catalog.names()
    for codes in catalog.family_module(family, "interface").INTERFACE.enums
]


@pytest.mark.parametrize(("family", "codes"), CODES)
def test_the_header_has_the_numbers_of_a_declaration(family: str, codes: Codes) -> None:
    expected = {f"{codes.prefix}_{word.upper()}": codes[word] for word in codes.words}
    assert enum(path_of(family).read_text(), codes.name) == expected


def test_enums_of_all_families_are_compared() -> None:
    actual = {str(parameters.id) for parameters in CODES}
    written = {
        name for family in catalog.names()
        for name in re.findall(r"^typedef enum (\w+) {", path_of(family).read_text(), re.MULTILINE)
    }  # fmt: skip
    assert actual == written != set()


@pytest.mark.parametrize(
    ("name", "prefix", "codes"),
    [
        ("tilewright_raster", "TILEWRIGHT_RASTER", tactics.RASTERS),
        ("tilewright_decomposition", "TILEWRIGHT_DECOMPOSE", tactics.DECOMPOSITIONS),
        ("tilewright_reduction", "TILEWRIGHT_REDUCE", tactics.REDUCTIONS),
    ],
)
def test_a_tactic_has_the_numbers_of_its_header(name: str, prefix: str, codes: dict[str, int]) -> None:
    expected = {f"{prefix}_{word.upper()}": code for word, code in codes.items()}
    assert enum((INCLUDE / "tactic.h").read_text(), name) == expected


def test_a_tactic_has_the_members_of_its_header_in_their_order() -> None:
    text = re.sub(r"//.*", "", (INCLUDE / "tactic.h").read_text())
    (body,) = re.findall(rf"typedef struct {MATRIX_TACTIC.name} {{(.*?)}}", text, re.DOTALL)
    members = [name.strip() for names in re.findall(r"int32_t ([^;]+);", body) for name in names.split(",")]
    assert tuple(members) == MATRIX_TACTIC.members


def test_a_definition_in_c() -> None:
    codes = Codes(
        "a_kind", ("none", "one", "four", "5x6"), prefix="A", text="What it is.",
        notes={"one": "1", "four": "4", "5x6": "30"}, above={"5x6": "Of two numbers."},
    )  # fmt: skip
    assert [*definition(codes)] == [
        "// What it is.",
        "typedef enum a_kind {",
        "  A_NONE = 0,",
        "  A_ONE = 1,   // 1",
        "  A_FOUR = 2,  // 4",
        "",
        "  // Of two numbers.",
        "  A_5X6 = 3,  // 30",
        "} a_kind;",
    ]


def test_words_that_there_are_not() -> None:
    codes = Codes("a_kind", ("none", "one"))
    with pytest.raises(ValueError, match="not in tuple"):
        codes["two"]
    with pytest.raises(ValueError, match="a_kind has notes about two, which it has not"):
        Codes("a_kind", ("none", "one"), notes={"two": "2"})


def test_a_code_is_the_number_of_the_word_that_a_problem_has() -> None:
    interface: Interface = catalog.family_module("grouped_gemm", "interface").INTERFACE
    (code,) = (codes for codes in interface.codes if codes.name == "grouping")
    problem = catalog.family_module("grouped_gemm", "problem").Problem
    asked = {word: code.value(problem(m=1, n=1, k=1, groups=1, grouping=word)) for word in ("none", "ends")}
    assert asked == {"none": 0, "ends": 2}
