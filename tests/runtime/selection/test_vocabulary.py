"""The words of families: from them alone follow problems, options and sizes."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

import tilewright
from tilewright.declarations import catalog
from tilewright.declarations.vocabulary import TYPES_OPTIONS, Choice, Extent, Flag, Types, Words
from tilewright.errors import ArgumentError
from tilewright.selection.families import family_of
from tilewright.tools.benchmarking import problems
from tilewright_generator.cli import bench, run, tune

FAMILIES = catalog.names()


def test_families_are_the_packages_with_ops() -> None:
    packages = Path(tilewright.__file__).parent.glob("families/*/vocabulary.py")
    assert sorted(path.parent.name for path in packages) == FAMILIES
    assert [name for name in FAMILIES if catalog.words_of(name).default] == [catalog.default_name()]


@pytest.mark.parametrize("family", FAMILIES)
def test_words_set_every_field_of_a_problem(family: str) -> None:
    words, of_family = catalog.words_of(family), family_of(family)
    assert words.family == family
    assert words is of_family.words
    assert words.problem is of_family.problem
    assert of_family.neighbour in words.size
    sets = {*words.types.fields[words.types.default], *(extent.name for extent in words.extents)}
    sets |= {word.field or word.name for word in words.others if word.field is not None}
    fields = {field.name for field in dataclasses.fields(words.problem)}
    assert fields - {*of_family.placement} <= sets <= fields
    assert words.types.option in TYPES_OPTIONS


@pytest.mark.parametrize("family", FAMILIES)
def test_defaults_are_those_of_no_words(family: str) -> None:
    words = catalog.words_of(family)
    plain = words.make(words.example, {})
    assert problems.of_words([family, *(f"{n}={v}" for n, v in words.example.items())]) == (family, plain)
    assert plain.kind_text == str(plain).replace(f"{plain.extents_text} ", "", 1)
    assert plain.types_text in plain.kind_text


def of_command(command: click.Command) -> dict[str, click.Option]:
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    return {name: option for option in options for name in option.opts}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_word_is_an_option_of_run_bench_and_tune(family: str) -> None:
    words = catalog.words_of(family)
    alone = run.command.get_command(click.Context(run.command), family)  # type: ignore[attr-defined]
    for command in (alone, bench.compare, tune.command):
        known = of_command(command)
        assert {*words.options, *TYPES_OPTIONS} <= set(known)
        for word in words.others:
            assert word.help in known[word.option].help
        for extent in words.extents:
            assert (extent.option in known) or (extent.default is None and command is not alone)
        options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
        declared = [name for option in options for name in option.opts]
        assert len(declared) == len(set(declared)), "two words share an option"


def test_a_flag_stands_for_what_is_not_the_default() -> None:
    alone = run.command.get_command(click.Context(run.command), "quantize")  # type: ignore[attr-defined]
    known = of_command(alone)
    assert (known["--fast"].flag_value, known["--dequantize"].flag_value) == (False, "dequantize")


@dataclasses.dataclass(frozen=True)
class Twist:
    """A problem of a family that there is not."""

    rows: int
    turns: int
    kind: str
    sharp: bool
    way: str


TWIST: Words[Twist] = Words(
    family="twist",
    summary="Turns.",
    problem=Twist,
    extents=(
        Extent("rows", "Rows.", usual=8, multiple=lambda fields: len(fields["kind"]), because="it fits"),
        Extent("turns", "Turns.", usual=1, default=1),
    ),
    types=Types(
        "--dtype", "ab", {"ab": {"kind": "ab"}, "abc": {"kind": "abc"}, "no": "not yet"}, "ab is", ""
    ),
    others=(
        Flag("sharp", "", default=True, flag="--blunt", allowed=lambda f: f["kind"] == "ab", because="why"),
        Choice("way", "", lambda fields: tuple(fields["kind"]), of="sharp"),
    ),
)


def test_values_may_hang_on_types() -> None:
    assert TWIST.make({"rows": 4}, {}) == Twist(4, 1, "ab", True, "a")
    made = TWIST.make({"rows": 6, "turns": 2}, {"types": "abc", "way": "c"})
    assert made == Twist(6, 2, "abc", True, "c")
    assert TWIST.make({}, {"rows": 2, "sharp": False}).sharp is False
    assert TWIST.size_text == "ROWS"


def test_a_hint_may_be_its_default_or_an_extent() -> None:
    hint = Extent("expected", "", usual=1, default=0, hint=True)
    assert [value for value in (-1, 0, 1, 2**30, 2**30 + 1) if hint.allows(value)] == [0, 1, 2**30]
    assert not Extent("rows", "", usual=1, default=0).allows(0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "rows: not given"),
        ({"rows": 3}, "rows: 3: expected a multiple of 2; it fits"),
        ({"rows": 2, "turns": 0}, "turns: 0: expected a number from 1 to 1073741824"),
        ({"rows": 2, "types": "no"}, "types: no: not yet"),
        ({"rows": 2, "types": "abcd"}, "types: abcd: expected one of ab, abc; did you mean 'abc'?"),
        ({"rows": 3, "types": "abc", "sharp": False}, "sharp: not supported for abc: why"),
        ({"rows": 2, "way": "c"}, "way: c: expected one of a, b for ab"),
        ({"rows": 2, "way": "b", "sharp": False}, "way: b: has no meaning without sharp"),
        ({"rows": 2, "k": 1}, "k: twist has none; it has --dtype, --blunt, --way"),
    ],
)
def test_what_a_family_has_not(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        TWIST.make({}, given)
    assert caught.value.message == message


def test_words_need_neither_torch_nor_a_command_line() -> None:
    code = (
        "import sys\n"
        "from tilewright.declarations import catalog\n"
        "for name in catalog.names(): catalog.words_of(name)\n"
        "print([name for name in ('torch', 'click', 'tvm_ffi') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
