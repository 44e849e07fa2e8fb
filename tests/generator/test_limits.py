"""What a spec may take: work is counted, and what is beyond a limit is said with its line.

None of these measures the clock. Without a limit, most would not end within the test's timeout.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_family
import yaml
from command_line import Command

from tilewright_generator import compose, expand, generation, limits, load, repair, spec
from tilewright_generator.errors import Fault, Faults, Position, SpecError
from tilewright_generator.project import Project
from tilewright_generator.scalars import Trap, resolve

HEAD = "family: tiny\narch: sm_90a\ndtype: bf16\n"


def faults(text: str) -> tuple[list[Fault], int]:
    """What is wrong with the YAML, and how much more."""
    faults = Faults()
    load.loads(text.encode(), "s.yaml", faults)
    return raised(faults)


def raised(faults: Faults) -> tuple[list[Fault], int]:
    try:
        faults.raise_if_any()
    except SpecError as error:
        return error.faults, error.more
    return [], 0


class Counted:
    """Counts calls of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.calls = 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        return self.function(*arguments, **named)


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Counts how often PyYAML's own parser begins with a text."""
    counted = Counted(yaml.reader.Reader.__init__)

    def begin(self: object, stream: object) -> None:
        counted(self, stream)

    monkeypatch.setattr(yaml.reader.Reader, "__init__", begin)
    return counted


def test_brackets_that_nobody_closes(parses: Counted) -> None:
    """libyaml looks at each open bracket for each token: 200,000 of them would not end within the timeout."""
    lines = "".join(f"  - {{dtype: [bf16, dtype: [x{number},\n" for number in range(200_000))
    actual, more = faults(f"{HEAD}configs:\n{lines}")
    assert (len(actual), more, parses.calls) == (1, 0, 0)


@pytest.mark.parametrize("separator", [",", ",\n  "])
def test_any_number_of_brackets_that_are_closed(separator: str) -> None:
    groups = separator.join(["{tile: [64x64x64]}"] * 5_000)
    assert faults(f"{HEAD}configs: [{groups}]\n") == ([], 0)


@pytest.mark.parametrize("line", ["  - a{}: b: c", "  - [{}", "  - '{}", "  - @{}", "  - - a: 1\n  b{}: 2"])
def test_broken_lines_are_parsed_again_a_bounded_number_of_times(parses: Counted, line: str) -> None:
    text = "configs:\n" + "".join(f"{line.format(n)}\n" for n in range(1000))
    actual, _ = faults(text)
    assert parses.calls <= limits.MOST_BROKEN_LINES + 1
    assert len(actual) <= limits.MOST_BROKEN_LINES + 1
    assert actual[-1].message == (
        "YAML is broken in this line too; what follows is not read: mend the lines above first"
    )


def test_broken_lines_up_to_the_limit_are_all_reported() -> None:
    number = limits.MOST_BROKEN_LINES
    actual, more = faults("configs:\n" + "".join(f"  - a{n}: b: c\n" for n in range(number)))
    assert (len(actual), more) == (number, 0)
    assert {problem.position.line for problem in actual} == set(range(2, number + 2))


def test_a_large_spec_is_parsed_by_libyaml_alone(parses: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "MOST_EXPLAINED_BYTES", 1000)
    actual, _ = faults("configs:\n" + "  - {a: 1}\n" * 200 + "  - a: b: c\n  - @x\n")
    assert parses.calls == 0
    assert [problem.position.line for problem in actual] == [202, 203]
    monkeypatch.setattr(repair, "MOST_PARSED_BYTES", 1000)
    actual, _ = faults("configs:\n" + "  - {a: 1}\n" * 200 + "  - a: b: c\n  - @x\n")
    assert [str(problem.position) for problem in actual] == ["s.yaml:202:1"]


def test_of_many_documents_the_first_is_read(parses: Counted) -> None:
    actual, more = faults("a: 1\n" + "---\na: 1\n" * 1000)
    assert (parses.calls, [str(problem.position) for problem in actual], more) == (0, ["s.yaml:2:1"], 0)


def test_undefined_aliases_need_no_second_parse(parses: Counted) -> None:
    actual, more = faults("configs:\n" + "".join(f"  - *a{n}\n" for n in range(3000)))
    assert (parses.calls, len(actual), more) == (0, limits.MOST_FAULTS, 3000 - limits.MOST_FAULTS)


KEYS = ", ".join(f"k{n}: 1" for n in range(300))
EXCESS = "up to here the spec stands for more than 20,000 values"


@pytest.mark.parametrize(
    "text",
    [
        f"x: &a {{{KEYS}}}\nb: {{<<: [" + "*a, " * 200 + "*a]}\n",
        f"x: &a0 {{{KEYS}}}\n" + "".join(f"y{n}: &a{n + 1} {{<<: *a{n}}}\n" for n in range(80)),
        "x0: &x0 [1, 1]\n" + "".join(f"x{n + 1}: &x{n + 1} [*x{n}, *x{n}]\n" for n in range(60)),
        "x0: &x0 {a: 1}\n" + "".join(f"x{n + 1}: &x{n + 1} {{a: *x{n}, b: *x{n}}}\n" for n in range(60)),
        "x: &a {b: 1}\nc:\n" + "  - *a\n" * 10_000,
        "[" + "[]," * 20_001 + "]",
    ],
    ids=["merges of a mapping", "merges in a chain", "lists", "mappings", "aliases", "values"],
)
def test_values_are_counted_as_often_as_they_stand(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compose, "MOST_VALUES", 20_000)
    actual, more = faults(text)
    assert (len(actual), more) == (1, 0)
    assert actual[0].message.startswith(EXCESS)


def test_sixty_thousand_groups_are_within_the_limits() -> None:
    """As `limits` says: each of eight fields, with a merge key of ten more."""
    base = ", ".join(f"base{n}: 1" for n in range(10))
    group = ", ".join(f"field{n}: w" for n in range(8))
    values = 1 + 11 + 60_000 * (1 + 9 + 1 + 11 + 10)
    assert values < limits.MOST_VALUES
    faults = Faults()
    small = f"x: &base {{{base}}}\nconfigs:\n" + f"  - {{<<: *base, {group}}}\n" * 600
    load.loads(small.encode(), "s.yaml", faults)
    assert len(faults) == 0
    assert limits.MOST_KERNELS > 60_000


def test_faults_beyond_the_limit_are_counted(project: Path, tilewright: Command) -> None:
    text = HEAD + "".join(f"unknown{n}: 1\n" for n in range(1000)) + "configs:\n  - {tile: 64x64x64}\n"
    (project / "specs/small.yaml").write_text(text)
    (project / "specs/other.yaml").write_text(HEAD + "configs: 5\n")
    actual = tilewright("check")
    assert actual.code == 2
    lines = actual.err.splitlines()
    assert len(lines) == limits.MOST_FAULTS + 3
    assert "other.yaml:4:10: configs: write a list of groups" in lines[0]
    assert lines[-2:] == ["... and 800 more", "1,001 faults."]


def test_a_module_beyond_the_limit_of_bytes_is_refused_and_not_written(
    project: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright_generator.module.MOST_MODULE_BYTES", 1)
    actual = tilewright("generate")
    assert actual.code == 2
    assert "small.yaml: the module's files take more than 0 MB; split the spec" in actual.err
    assert not (project / "generated/small/table.json").exists()
    assert not list(project.rglob("*.cu"))


def test_two_specs_that_make_one_module_are_a_fault_of_the_second(project: Path) -> None:
    other = project / "other" / "small.yaml"
    other.parent.mkdir()
    other.write_text(HEAD + "configs:\n  - {tile: 128x64x64}\n")
    with pytest.raises(SpecError, match=r"other/small.yaml:1:1: specs/small.yaml makes the module small "):
        generation.read(Project.find(project), [project / "specs/small.yaml", other])


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "".join(f"unknown{n}: 1\n" for n in range(1000)) + "configs: []\n",
        HEAD + "configs:\n" + "".join(f"  - {{tile: 64x64x64, unknown{n}: 1}}\n" for n in range(1000)),
        HEAD + "configs:\n" + "".join(f"  - {{tile: 64x64x64, dtype: bf{n}}}\n" for n in range(1000)),
        HEAD + "configs:\n" + "".join(f"  - {{tile: 64x64x64, use: f{n}}}\n" for n in range(1000))
        + "defaults: {a: {fast: true}, b: {fast: true}}\n",
        HEAD + "a: &b 1\nconfigs:\n" + "".join(f"  - *a{n}\n" for n in range(1000)),
        HEAD + "configs:\n  - {tile: 64x64x64, exclude: ["
        + ", ".join(f"{{tile: 64x{n}x64, reason: a}}" for n in range(1, 1000)) + "]}\n",
    ],
    ids=["keys", "keys of groups", "words", "fragments", "aliases", "excludes"],
)  # fmt: skip
def test_suggestions_are_worked_out_for_what_is_printed_alone(
    project: Path, tilewright: Command, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    suggested = Counted(difflib.get_close_matches)
    monkeypatch.setattr(difflib, "get_close_matches", suggested)
    (project / "specs/small.yaml").write_text(text)
    assert tilewright("check").code == 2
    assert 0 < suggested.calls <= 3 * limits.MOST_FAULTS


def test_no_suggestion_for_a_word_that_no_name_is_as_long_as(
    project: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    suggested = Counted(difflib.get_close_matches)
    monkeypatch.setattr(difflib, "get_close_matches", suggested)
    (project / "specs/small.yaml").write_text(tiny_family.SPEC + "x" * 1000 + ": 1\n")
    assert tilewright("check").code == 2
    assert suggested.calls == 0


def test_a_fault_that_aliases_repeat_is_told_once(project: Path, tilewright: Command) -> None:
    text = HEAD + "configs:\n  - &a {tile: 1, unknown: 2}\n" + "  - *a\n" * 3000
    (project / "specs/small.yaml").write_text(text)
    actual = tilewright("check")
    assert actual.code == 2
    assert sum("has no field 'unknown'" in line for line in actual.err.splitlines()) == 1


def test_one_message_is_worked_out_per_fault_that_is_kept() -> None:
    faults, message = Faults(), Counted(lambda: "x")
    kept = [faults.add(Position("s.yaml", line, 1), message) for line in range(1000)]
    assert (sum(kept), message.calls) == (limits.MOST_FAULTS, limits.MOST_FAULTS)
    actual, more = raised(faults)
    assert (len(actual), more, len(faults)) == (limits.MOST_FAULTS, 800, 1000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("  - &a {tile: 64x64x64}\n" + "  - *a\n" * 1000, "configs: 1,001 groups, more than 1,000"),
        ("  - {tile: [" + ", ".join(f"64x{n}x64" for n in range(1, 90)) + "], fast: [true, false], "
         "stages: [2, 3, 4, 5, 6, 7]}\n", "the spec multiplies out to 1,068 combinations, more than 1,000"),
        ("  - {tile: [" + ", ".join(f"64x{n}x64" for n in range(1, 40)) + "], exclude: ["
         + ", ".join(f"{{tile: 64x{n}x64, reason: a}}" for n in range(1, 30)) + "]}\n",
         "1,131 combinations and items of `exclude:` are to be compared, more than 1,000"),
        ("  - {tile: 64x64x64}\ndefaults:\n" + "".join(f"  f{n}: {{fast: true}}\n" for n in range(1001)),
         "small.yaml:8:3: defaults: 1,001 fragments, more than 1,000"),
        ("  - {use: [" + "f, " * 600 + "f]}\n", "use: more than 1,000 values up to here"),
    ],
    ids=["groups", "combinations", "excludes", "use", "fragments"],
)  # fmt: skip
def test_what_groups_multiply_out_to_is_bounded(
    project: Path, tilewright: Command, text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, names in (
        (spec, ("MOST_FRAGMENTS", "MOST_KERNELS", "MOST_VALUES")),
        (expand, ("MOST_KERNELS", "MOST_EXCLUDE_TESTS")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, 1000)
    head = f"{HEAD}max_combinations: 1000000000000\n"
    defaults = "defaults: {f: {fast: true}}\n" if "use" in text else ""
    (project / "specs/small.yaml").write_text(f"{head}{defaults}configs:\n{text}")
    actual = tilewright("check")
    assert actual.code == 2
    assert said in actual.err


def test_the_text_of_a_value_that_makes_no_kernel_takes_each_rejection_once(
    project: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not each for every value: 1,000 values of which each meets the rejections of all are a million."""
    looked = Counted(expand._by_value)
    monkeypatch.setattr(expand, "_by_value", looked)
    tiles = ", ".join(f"{m}x64x64" for m in (64, *range(129, 1129)))
    (project / "specs/small.yaml").write_text(f"{HEAD}configs:\n  - {{tile: [{tiles}]}}\n")
    actual = tilewright("check")
    assert (actual.code, looked.calls) == (2, 1)
    assert actual.err.count("makes no kernel: rows") == limits.MOST_FAULTS


@pytest.mark.parametrize("text", ["1" + "_" * 5000 + "x", "1_" * 5000 + "x", "0" * 5000 + "x", "1:" * 5000])
def test_a_word_that_is_nearly_a_number_is_read_at_once(text: str) -> None:
    """A pattern that can match a row of underscores in many ways would try them all."""
    assert resolve(text) == text


@pytest.mark.parametrize("text", ["1_000", "1_", "1__0", "0._", ".1_", "1_0.5", "1.5_0e+3", "+1_0"])
def test_underscores_in_a_number_are_a_trap(text: str) -> None:
    assert isinstance(resolve(text), Trap)
