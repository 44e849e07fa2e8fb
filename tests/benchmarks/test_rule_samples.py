"""The program that asks the compiler about rules: what it draws, how it judges, and units of its sample."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tilewright.configurations.shapes import Tile
from tilewright_generator import families
from tilewright_generator.rules import verdicts

ROOT = Path(__file__).parents[2]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    from benchmarks.robustness import rules_against_compiler  # noqa: PLC0415

    return rules_against_compiler


@pytest.fixture
def samples(program: Any) -> Any:
    from benchmarks.robustness import rule_samples  # noqa: PLC0415 (beside program)

    return rule_samples


def test_a_sample_has_every_rule_and_is_the_same_each_time(samples: Any) -> None:
    drawn = samples.sample("gemm", 0)
    assert {candidate.rule for candidate in drawn} == {
        rule.name for rule in families.get("gemm").rules
    } - samples.NOT_NVCCS | {""}
    assert [sample.digest for sample in samples.sample("gemm", 0)] == [sample.digest for sample in drawn]
    assert len({sample.config for sample in drawn}) == len(drawn)


def test_a_sample_of_block_scaled_kernels_has_as_many_of_each_kind_as_it_should(samples: Any) -> None:
    """A new rule has to be drawn, or to stand in NOT_DRAWN."""
    family = families.get("blockscaled_gemm")
    drawn = samples.sample("blockscaled_gemm", 1)
    counts = Counter(candidate.rule or samples.kind(candidate.config) for candidate in drawn)
    asked = {rule.name for rule in family.rules} - {rule.name for rule in samples.NOT_DRAWN}
    assert counts == samples.ACCEPTED | dict.fromkeys(asked, samples.REJECTED_OF_A_RULE)
    assert all(len(verdicts(family, candidate.config)) == bool(candidate.rule) for candidate in drawn)


def test_configurations_of_the_record_are_drawn_first(samples: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the seed is: a new field or rule leaves most answers in use. Others are drawn by the seed."""
    recorded = [*samples.recorded(families.get("blockscaled_gemm"))]
    assert len(recorded) >= 100
    half = set(recorded[::2])
    monkeypatch.setattr(samples, "recorded", lambda family: recorded[::2])
    first, second = (
        {candidate.config for candidate in samples.sample("blockscaled_gemm", seed)} for seed in (0, 1)
    )
    assert len(first & half) >= 0.9 * len(half)
    assert first & half == second & half
    assert first != second


def test_every_field_of_block_scaled_kernels_is_drawn(samples: Any) -> None:
    """A new field whose values are not in its type has to be in CHOICES."""
    assert [name for name, values in samples.FIELDS.items() if not values] == []
    rng = random.Random(0)
    drawn = [samples.random_config("sm_100f", rng) for _ in range(200)]
    assert {config.bias for config in drawn} == {False, True}


def test_what_may_fail_is_compiled_alone_and_the_rest_by_its_flags(program: Any, samples: Any) -> None:
    drawn = samples.sample("gemm", 0)
    units = list(program.units(drawn, front_end=True))
    assert sorted(sample.name for unit in units for sample in unit) == sorted(sample.name for sample in drawn)
    assert all(len(unit) == 1 for unit in units if unit[0].rule)
    assert any(len(unit) == program.TOGETHER for unit in units)
    assert all(len({program.flags_of(sample) for sample in unit}) == 1 for unit in units)
    assert all(len(unit) == 1 for unit in program.units(drawn, front_end=False))


@pytest.mark.parametrize(
    ("rule", "compiles", "expected"),
    [
        ("", True, "agree"),
        ("", False, "disagree"),
        ("cooperative_rows", False, "agree"),
        ("cooperative_rows", True, "disagree"),
        ("tile_depth", True, "stricter"),
        ("tile_depth", False, "agree"),
    ],
)
def test_the_verdict(program: Any, rule: str, compiles: bool, expected: str) -> None:
    row = {"rule": rule, "compiles": compiles}
    assert program.judge(row, program.why_stricter("gemm")) == expected


def test_what_nvcc_does_not_end_with_is_no_answer(
    program: Any, samples: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a unit of several does not end in time, its configurations are asked about one by one."""
    slow, quick = (
        samples.candidate(families.get("gemm"), replace(samples.FEW_ROWS, tile=Tile(64, n, 64)))
        for n in (72, 64)
    )

    def nvcc(unit: list[Any], toolchain: None, front_end: bool) -> str:
        if slow in unit:
            raise TimeoutError("nvcc took more than 300 s")
        return ""

    monkeypatch.setattr(program, "nvcc", nvcc)
    assert [row["name"] for row in program.compile_unit([slow, quick], None, True)] == [quick.name]
    assert f"no answer: {slow.name}: nvcc took more than 300 s" in capsys.readouterr().out


HEAD = {
    "family": "gemm", "front_end": True, "date": "2026-11-30", "nvcc": "13", "cutlass": "4.2", "host": "g++",
    "drawn": 2,
}  # fmt: skip


def test_answers_about_other_sources_stay_until_they_are_renewed(
    program: Any, samples: Any, tmp_path: Path
) -> None:
    """They are asked again, and the page counts them."""
    same, changed = (
        samples.candidate(families.get("gemm"), replace(samples.FEW_ROWS, tile=Tile(64, n, 64)))
        for n in (72, 64)
    )
    rows = [
        {
            "name": candidate.name, "rule": candidate.rule, "reason": "before", "compiles": True, "error": "",
            "seconds": 1.0, "source": source,
        }
        for candidate, source in ((same, same.digest), (changed, "another"))
    ]  # fmt: skip
    path = tmp_path / "record.json"
    program.write(path, HEAD | {"to_ask": 1}, [*rows, rows[0] | {"name": "of another sample"}])
    assert "sources have changed since: 1.\n" in path.with_suffix(".md").read_text()
    answers = program.known_rows(path, HEAD, [same, changed])
    assert {*answers} == {(same.name, "odd_columns"), (changed.name, "")}
    assert answers[same.name, "odd_columns"]["reason"] == same.reason
    assert program.to_ask(answers, [same, changed]) == [changed]
    answers[changed.name, ""]["source"] = changed.digest
    assert program.to_ask(answers, [same, changed]) == []
    assert program.to_ask({}, [same, changed]) == [same, changed]
    assert program.known_rows(path, HEAD | {"nvcc": "14"}, [same, changed]) == {}


def test_the_index_has_the_answers(program: Any) -> None:
    index = (ROOT / "benchmarks/results/README.md").read_text(encoding="utf-8")
    for family in program.FAMILIES:
        record = json.loads(program.record(family).read_text(encoding="utf-8"))
        rows, stricter = record["candidates"], program.why_stricter(family)
        judged = Counter(program.judge(row, stricter) for row in rows)
        cells = (len(rows), *(judged[verdict] for verdict in ("agree", "stricter", "disagree")))
        assert f"| `{family}` | {' | '.join(map(str, cells))} | {record['to_ask']} |" in index


@pytest.mark.compile
def test_the_compiler_still_refuses_an_odd_n_and_takes_its_neighbour(
    program: Any, samples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One unit each of the sample: where another CUTLASS compiles the first, its rule may go."""
    monkeypatch.setattr(program, "TIMEOUT_SECONDS", 3600)  # a loaded machine takes minutes
    toolchain, family = program.find_toolchain(), families.get("gemm")
    errors = []
    for n in (72, 64):
        one = samples.candidate(family, replace(samples.FEW_ROWS, tile=Tile(64, n, 64)))
        assert one.rule == ("odd_columns" if n == 72 else "")
        errors.append(program.nvcc([one], toolchain, front_end=True))
    assert re.search(r"static assertion failed.*Divisibility", errors[0])
    assert errors[1] == ""
