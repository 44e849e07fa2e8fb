"""`tilewright explain`: kernels, combinations, rules, and what is left out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command_line import ROOT, Command
from small_spec import FAST, SPEC


@pytest.fixture
def spec(project: Path) -> Path:
    path = project / "specs" / "small.yaml"
    path.write_text(SPEC)
    return path


def test_explain_a_kernel_says_which_line_gave_each_field_and_what_it_means(
    spec: Path, tilewright: Command
) -> None:
    result = tilewright("explain", FAST)
    assert result.code == 0
    assert "made by specs/small.yaml:6:5, as small/tiny_bf16_64x64x64_1x1_fast.cu" in result.out
    lines = [line.split(maxsplit=3) for line in result.out.splitlines() if "  " in line[2:]]
    rows = {words[0]: words[1:] for words in lines}
    assert rows["dtype"] == ["bf16", "specs/small.yaml:7:13", "operand type"]
    assert rows["fast"] == ["true", "specs/small.yaml:4:17", "fewer bits"]
    assert rows["cluster"] == ["1x1", "default", "thread blocks"]
    assert rows["elements"] == ["4096"]
    assert tilewright("explain", f"{FAST}.cu").out == result.out


def test_explain_the_name_of_what_is_left_out(spec: Path, tilewright: Command) -> None:
    rejected = tilewright("explain", "tiny_bf16_256x512x64_1x1_fast").out
    assert "left out of the group at specs/small.yaml:6:5" in rejected
    assert "rejected by rows: 256 rows > 128 (limit: the hardware's)\n      rule: A tile has at" in rejected
    assert "rejected by area: 131072 elements > 32768 (limit: ours)" in rejected
    excluded = tilewright("explain", "tiny_e4m3_64x64x64_1x1_fast").out
    assert "excluded at specs/small.yaml:10:9: nobody asks for it" in excluded


def test_explain_while_another_spec_is_wrong(spec: Path, tilewright: Command) -> None:
    result = tilewright("explain", FAST)
    wrong = spec.with_name("wrong.yaml")
    wrong.write_text("family: tiny\narch: sm_1\nconfigs: 3\n")
    assert tilewright("check").code == 2
    note = "left out specs/wrong.yaml: "
    for words, expected in (
        ([FAST], result.out),
        (["fast=true"], None),
        (["tiny", "arch=sm_90a", "dtype=bf16", "tile=256x512x64"], None),
    ):
        answer = tilewright("explain", *words)
        assert (answer.code, note in answer.err) == (0, True), answer
        assert expected in (None, answer.out)
    missing = tilewright("explain", "tiny_bf16_64x64x64_1x1_fats")
    assert (missing.code, note in missing.err) == (2, True)
    assert "configs" in tilewright("explain", "--spec", wrong, "fast=true").err  # the faults themselves
    spec.unlink()
    assert "configs" in tilewright("explain", FAST).err


def test_explain_an_unknown_name(spec: Path, tilewright: Command) -> None:
    result = tilewright("explain", "tiny_bf16_64x64x64_1x1_fats")
    assert result.code == 2
    assert f"did you mean '{FAST}'" in result.err


def test_explain_a_name_whose_beginning_is_right(tilewright: Command) -> None:
    result = tilewright("explain", "gemm_sm90_nope")
    assert result.code == 2
    assert re.search(
        r"; [\d,]+ kernels begin with gemm_sm90_, such as 'gemm_sm90_\w+' "
        r"\(`tilewright list --filter 'gemm_sm90_\*'`\)$",
        result.err.strip(),
    )
    assert tilewright("explain", "zebra_nope").err.strip().endswith("is called 'zebra_nope'")


def test_explain_a_tactic_is_about_its_kernel(spec: Path, tilewright: Command) -> None:
    assert tilewright("explain", f"{FAST}@cluster=2x1,splits=4").out == tilewright("explain", FAST).out
    unknown = tilewright("explain", "tiny_bf16@splits=4")
    assert (unknown.code, "no kernel of a spec is called 'tiny_bf16'" in unknown.err) == (2, True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("splits=999", "splits is 999; expected 1 to 64"),
        ("nope=3", "'nope=3' is not NAME=VALUE with a NAME of cluster, "),
        ("cluster=5x7", "cluster is '5x7'; expected MxN such as 4x2, at most 16 thread blocks"),
    ],
)
def test_explain_refuses_settings_that_no_tactic_has(
    settings: str, message: str, spec: Path, tilewright: Command
) -> None:
    wrong = tilewright("explain", f"{FAST}@{settings}")
    assert wrong.code == 2
    assert message in wrong.err


def test_explain_says_what_a_word_is_that_it_does_not_explain(spec: Path, tilewright: Command) -> None:
    assert "'cluster'; it is a field of " in tilewright("explain", "cluster").err
    assert "(`tilewright explain tiny`)" in tilewright("explain", "dtype").err
    assert "'mm_nvfp4'; mm_nvfp4 is an op of blockscaled_gemm" in tilewright("explain", "mm_nvfp4").err


def test_explain_of_what_rules_reject_names_the_fields_that_they_weigh(
    spec: Path, tilewright: Command
) -> None:
    out = tilewright("explain", "tiny_bf16_256x512x64_1x1_fast").out
    assert "fields that they weigh:\n  dtype  bf16        " in out
    assert [line.split()[0] for line in out.split("weigh:\n")[1].splitlines()] == ["dtype", "tile"]


def test_explain_what_becomes_of_a_specs_combinations(spec: Path, tilewright: Command) -> None:
    out = tilewright("explain", "fast=true").out
    assert out.startswith("6 combinations: 3 kernels, 1 excluded by the spec, 2 rejected by rules\n")
    answer = json.loads(tilewright("explain", "--json", "tile=256x512x64", "dtype=bf16").out)
    assert [each["name"] for each in answer] == ["tiny_bf16_256x512x64_1x1_fast"]
    assert answer[0]["rejected"] == [
        {"rule": "rows", "reason": "256 rows > 128", "limit": "the hardware's"},
        {"rule": "area", "reason": "131072 elements > 32768", "limit": "ours"},
    ]


def test_explain_a_combination_that_no_spec_names(spec: Path, tilewright: Command) -> None:
    legal = tilewright("explain", "--spec", spec, "dtype=e4m3", "tile=32x32x32").out
    assert "legal; specs/small.yaml does not name it" in legal
    illegal = tilewright("explain", "--spec", spec, "dtype=e4m3", "tile=512x32x32").out
    assert "rejected by rows: 512 rows > 256" in illegal


def test_explain_a_combination_of_a_family(project: Path, tilewright: Command) -> None:
    result = tilewright("explain", "tiny", "arch=sm_90a", "dtype=bf16", "tile=256x512x64")
    assert result.code == 0
    assert "rejected by rows" in result.out
    assert "rejected by area" in result.out
    assert "give arch=..., tile=... too" in tilewright("explain", "tiny", "dtype=bf16").err
    assert "should be one of bf16, f16, e4m3" in tilewright("explain", "tiny", "dtype=x").err
    assert "no field 'tiel'; did you mean 'tile'" in tilewright("explain", "tiny", "tiel=x").err
    assert "give a kernel's name, or a family" in tilewright("explain", "a", "b").err


def test_explain_a_combination_that_a_spec_makes(spec: Path, tilewright: Command) -> None:
    terms = ("arch=sm_90a", "dtype=bf16", "tile=64x64x64")
    made = tilewright("explain", "tiny", *terms, "fast=true").out
    assert f"made by specs/small.yaml:6:5, as small/{FAST}.cu" in made
    assert "legal; no spec names it" in tilewright("explain", "tiny", *terms, "fast=false").out
    # Nothing is quoted on a command line: where a field takes text, a number is text.
    assert "legal; no spec names it" in tilewright("explain", "tiny", *terms, "note=12").out


def test_explain_a_family_anywhere(
    tmp_path: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [" ".join(line.split()) for line in tilewright("explain", "tiny").out.splitlines()]
    assert "tile e.g. 128x256x64 required tile of a thread block" in lines
    assert "stages auto|2..8 default auto depth" in lines
    assert "rows: A tile has at most 128 rows, of e4m3 256. (limit: the hardware's)" in lines
    fields = json.loads(tilewright("explain", "tiny", "--json").out)["fields"]
    assert [each["name"] for each in fields][:2] == ["arch", "dtype"]
    answer = tilewright("explain", "tiny", "arch=sm_90a", "dtype=bf16", "tile=64x64x64")
    assert "legal; no spec names it" in answer.out


def test_what_comes_with_tilewright_can_be_seen_outside_of_a_project(
    tmp_path: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_lean_coop"
    assert name in tilewright("list", "--filter", name).out
    assert "made by specs/sm90_gemm_lean.yaml:" in tilewright("explain", name).out
    there = tilewright("list", "--root", ".")
    assert (there.code, "holds no module; run `tilewright generate`" in there.err) == (2, True)
    assert tilewright("check").code == 2


def test_explain_a_rule(tilewright: Command) -> None:
    result = tilewright("explain", "operand_layout").out
    assert result.startswith(
        "operand_layout: a rule of gemm\n  Operands that are not 16 bits wide have k cont"
    )
    assert "\n  limit: ours\n  source: wgmma.mma_async reads operands of 16 bits from shared memory" in result
    path, line = result.splitlines()[-1].removeprefix("  at ").rsplit(":", 1)
    assert Path(path).read_text().splitlines()[int(line) - 1].startswith("@rule(OURS, ")


def test_explain_a_rule_that_two_families_have(tilewright: Command) -> None:
    result = tilewright("explain", "cluster_size").out
    assert "cluster_size: a rule of gemm\n" in result
    assert "cluster_size: a rule of blockscaled_gemm\n" in result
    assert len(json.loads(tilewright("explain", "cluster_size", "--json").out)) == 2


def test_explain_asks_the_specs_that_know_the_fields(tilewright: Command) -> None:
    terms = ("arch=sm_120f", "a=nvfp4", "b=nvfp4", "d=bf16", "schedule=cooperative")
    result = tilewright(
        "explain", *terms, "tile=128x128x256", "scheduler=stream_k", "swap_ab=true", "--root", ROOT
    )
    assert result.out.startswith(
        "blockscaled_gemm_sm120f_nvfp4_nvfp4_bf16_128x128x256_1x1_coop_streamk_swap\n"
    )
    assert "made by specs/sm120_nvfp4_gemm.yaml:" in result.out
    result = tilewright("explain", *terms, "tile=96x128x128", "--root", ROOT)
    assert "rejected by sm120_tile: tile M" in result.out
    assert tilewright("explain", "arch=sm_999", "--root", ROOT).code == 2


def test_a_field_given_twice_is_an_error(spec: Path, tilewright: Command) -> None:
    result = tilewright("explain", "fast=true", "fast=false")
    assert (result.code, result.err) == (2, "Error: fast=false: fast is given twice; give it once\n")


def test_a_field_without_a_value_is_an_error(spec: Path, tilewright: Command) -> None:
    result = tilewright("explain", "fast=true", "tile=")
    assert (result.code, result.err) == (2, "Error: tile=: expected FIELD=VALUE\n")


def test_explain_without_a_word_says_of_what(tilewright: Command) -> None:
    for command in (["explain"], ["explain", "--problem"]):
        result = tilewright(*command)
        assert result.code == 2
        assert (
            "expected a kernel's name, FIELD=VALUE..., a rule, or a family: blockscaled_gemm, " in result.err
        )
