"""A bundle of host kernels: it is built for real, and calls run from it without a compiler."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from host_programs import FOLDER
from small_bundle import MOST, ROWS, K, N, operands, products

import tilewright
from tilewright import bundle, context
from tilewright.architectures.device import H100, H200
from tilewright.bundle.closed import Bundle
from tilewright.context import Context
from tilewright.errors import BundleError
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection.families import family_of
from tilewright.tools.bundling import making, planning, proof
from tilewright.tools.bundling.closure import Setting
from tilewright_generator import cli

GEMM = family_of("gemm")


@pytest.mark.parametrize("m", [0, 1, 17, MOST])
def test_calls_run_from_the_bundle(m: int, current: Context, tmp_path: Path) -> None:
    a, weight = operands(m)
    d = tilewright.gemm(a, weight.T)
    assert torch.equal(d, (a.double() @ weight.double().T).to(torch.bfloat16))
    plan = tilewright.plan(tilewright.gemm, a, weight.T, out=d)
    plan(a, weight.T, d.zero_())
    assert torch.equal(d, (a.double() @ weight.double().T).to(torch.bfloat16))
    assert not (tmp_path / "cache").exists()


def test_the_variable_names_the_bundle(
    made: Path, without_compiler: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context._state, "current", None)
    monkeypatch.setenv("TILEWRIGHT_BUNDLE", str(made))
    own = context.current().bundle
    assert own is not None
    assert own.folder == made
    assert repr(own) == f"<bundle {made}: problems: 2 of gemm; for NVIDIA H200>"


def test_choices_are_the_librarys(small: Bundle, generated: Path) -> None:
    library = Context(Registry(generated))
    assert small.registry.kernels("gemm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_JIT", "1")
        for m in range(1, MOST + 1):
            problem = Problem(m, N, K)
            own = small.choose(GEMM, problem, H200)
            assert own.tactic == library.select(GEMM, problem, H200).tactic
            assert own.source == "bundle"


def test_a_range_begins_with_its_first_value(small: Bundle) -> None:
    entry = replace(small.manifest.entries[0], values=range(1, 13), choices=((1, 0), (5, 1), (9, 0)))
    assert [entry.number(value) for value in entry.values] == [0] * 4 + [1] * 4 + [0] * 4


def test_the_plan_has_every_problem_once(plan: planning.Plan) -> None:
    assert [planned.layers for planned in plan.problems] == [("up", "gate"), ("rows",)]
    assert plan.problems[0].count == 3
    (left,) = plan.left_out
    assert left.layer == "half"
    assert "no gemm kernel computes" in left.reason


def test_libraries_hold_the_chosen_kernels_alone(made: Path, plan: planning.Plan) -> None:
    descriptions = [json.loads(path.read_text()) for path in made.glob("libraries/*/*/library.json")]
    assert [sorted(description["kernels"]) for description in descriptions] == [list(plan.kernels)]
    files = {path.name for path in made.iterdir()}
    assert files == {"bundle.json", "libraries", "report.json", "report.md"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"m": MOST + 1}, f"m is {MOST + 1}, and the bundle was made for 1 to {MOST} (up, gate)"),
        ({"n": 48, "m": 12}, "m is 12, and the bundle was made for 8 to 64 in steps of 8 (rows)"),
        ({"n": 40}, "n is 40, there it is 32 or 48"),
        ({"bias": True}, "bias is True, there it is False"),
        ({"a": "e4m3", "b": "e4m3", "k": 128}, "k is 128, there it is 64; a is e4m3"),
    ],
)
def test_another_problem_is_refused_by_name(fields: dict[str, object], message: str, small: Bundle) -> None:
    problem = replace(Problem(16, N, K), **fields)
    with pytest.raises(BundleError) as refused:
        small.choose(GEMM, problem, H200)
    assert str(small.folder) in str(refused.value)
    assert f"does not have {problem}: " in refused.value.message
    assert message in refused.value.message
    assert "tilewright bundle" in str(refused.value.hint)


def test_a_call_of_another_family_is_refused(current: Context) -> None:
    with pytest.raises(BundleError, match="has no transpose_fp8 problem"):
        tilewright.transpose_fp8(torch.zeros(16, 32).to(torch.float8_e4m3fn))


def test_another_gpu_is_refused(small: Bundle) -> None:
    with pytest.raises(BundleError, match="is for NVIDIA H200 with 132 SMs; this GPU is NVIDIA H100"):
        small.choose(GEMM, Problem(16, N, K), H100)
    with pytest.raises(BundleError, match="this GPU is NVIDIA H200 with 16 SMs"):
        small.choose(GEMM, Problem(16, N, K), H200._replace(sm_count=16))


def test_another_mode_is_refused(current: Context) -> None:
    a, weight = operands(4)
    with (
        tilewright.batch_invariant(),
        pytest.raises(BundleError, match="was made without --batch-invariant"),
    ):
        tilewright.gemm(a, weight.T)


def test_a_demanded_kernel_is_of_the_bundle(current: Context, plan: planning.Plan) -> None:
    a, weight = operands(4)
    d = tilewright.gemm(a, weight.T, tactic=plan.kernels[0])
    assert torch.equal(d, (a.double() @ weight.double().T).to(torch.bfloat16))
    (other,) = {row["name"] for row in ROWS} - {*plan.kernels} or {"host_transpose_fp8"}
    with pytest.raises(BundleError, match=f"{other} is not in "):
        tilewright.gemm(a, weight.T, tactic=other)


def test_two_processes_choose_as_one(setting: Setting, plan: planning.Plan) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_TUNED", "")
        assert planning.plan(products(), setting, jobs=2) == plan


def test_the_proof_sees_another_choice(
    plan: planning.Plan, setting: Setting, generated: Path, no_tuned_files: None
) -> None:
    content = plan.manifest(Registry(generated))
    assert not list(proof.differences(content, setting, jobs=1))
    first, *others = content.entries
    tactics = (*content.tactics, "host_bf16_tn@raster=along_n")
    forged = replace(
        first, choices=(*first.choices, (MOST - 1, len(content.tactics)))
    )  # for the last two values
    actual = list(
        proof.differences(replace(content, tactics=tactics, entries=(forged, *others)), setting, jobs=1)
    )
    assert [difference.bundle for difference in actual] == ["host_bf16_tn@raster=along_n"] * 2
    assert f"gemm {MOST}x{N}x{K}" in actual[1].problem


def test_a_bundle_is_made_anew_in_its_folder_and_in_no_other(made: Path, tmp_path: Path) -> None:
    making.check_folder(made)
    making.check_folder(tmp_path)
    (tmp_path / "notes.txt").write_text("of somebody")
    with pytest.raises(BundleError, match="holds files and is no bundle"):
        making.check_folder(tmp_path)
    with pytest.raises(BundleError, match="is no folder"):
        making.check_folder(tmp_path / "notes.txt")


def test_what_a_killed_run_leaves_is_made_anew(
    made: Path, plan: planning.Plan, generated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    folder, registry = tmp_path / "bundle", Registry(generated)
    with monkeypatch.context() as patch:
        patch.setattr(making, "build", interrupted)
        with pytest.raises(KeyboardInterrupt):
            making.build_kernels(plan, registry, folder)
    (folder / ".linking-killed" / "store").mkdir(parents=True)  # an interrupt removes it, SIGKILL does not
    making.check_folder(folder)
    with pytest.raises(BundleError, match="has format 0, this tilewright reads 1"):
        bundle.load(folder)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(FOLDER / "cache"))
    assert making.build_kernels(plan, registry, folder).ok
    making.write(plan, registry, folder, ["# Report\n", "{}\n"])
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in made.iterdir())


def test_commands_follow_the_variable(
    made: Path, without_compiler: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILEWRIGHT_BUNDLE", str(made))
    words = ["explain", "--problem", "gemm", "bf16", f"n={N}", f"k={K}"]
    assert cli.invoke([*words, "m=8"]) == 0
    assert f"Why (bundle): {made} has it for m of 8" in capsys.readouterr().out
    assert cli.invoke([*words, "m=9999"]) == 2
    assert "m is 9999, and the bundle was made for" in capsys.readouterr().err
    cli.invoke(["doctor"])
    assert f"problems of {made}: 2 of gemm; a call of any other raises BundleError" in capsys.readouterr().out
    cli.invoke(["doctor", "--device", "b200"])
    assert "this GPU is NVIDIA B200" in capsys.readouterr().out
