"""`tilewright explain` of problems that are tuned, and of kernels that are not built."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from altered import altered

from tilewright.architectures.device import B200, H200
from tilewright.base import paths
from tilewright.context import Context
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection.tuned_files import Entry
from tilewright.selection.tuned_header import Header
from tilewright.tools.explaining import explain
from tilewright.tools.tuning import tuned_writing


def tune(folder: Path, context: Context, entries: list[Entry]) -> None:
    header = Header.of(H200, context.registry, "gemm")
    tuned_writing.update(paths.tuned_file(folder, H200.name, "gemm"), header, FAMILY, entries)
    context.forget_tuned()


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    """A context of the committed kernels, none of them built, without tuned defaults."""
    monkeypatch.setenv("TILEWRIGHT_TUNED", str(tmp_path))
    monkeypatch.setenv("TILEWRIGHT_JIT", "1")
    generated = tmp_path / "project" / "generated"  # with no tuned/ beside it
    generated.parent.mkdir()
    generated.symlink_to(paths.shipped_generated_dir())
    return Context(Registry(generated, libraries=lambda module: []))


def test_a_tuned_entry_and_its_neighbour(tmp_path: Path, context: Context) -> None:
    problem = Problem(32, 5120, 25600)
    third = FAMILY.rank(context.registry.route("gemm", H200), problem, H200)[2].tactic
    assert explain(context, FAMILY, problem, H200).choice.source == "model"
    tune(tmp_path, context, [Entry(problem, third, 1.25e-5)])
    explanation = explain(context, FAMILY, problem, H200)
    assert (explanation.choice.source, explanation.choice.tactic) == ("tuned", third)
    text = "\n".join(explanation.lines())
    assert "Why (tuned): 12.50 us were measured" in text
    assert f"(not built, tuned: 12.50 us measured)\n        {third}\n" in text
    near = explain(context, FAMILY, Problem(31, 5120, 25600), H200)
    assert near.choice.source == "neighbour"
    assert "Why (neighbour): tuned for m of 32, the nearest" in "\n".join(near.lines())


def test_a_call_that_may_not_build(tmp_path: Path, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error that it raises, and what was tuned and is passed over."""
    problem = Problem(32, 5120, 25600)
    third = FAMILY.rank(context.registry.route("gemm", H200), problem, H200)[2].tactic
    tune(tmp_path, context, [Entry(problem, third, 1.25e-5)])
    assert explain(context, FAMILY, problem, H200).raises is None
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    explanation = explain(context, FAMILY, problem, H200)
    assert explanation.choice.source == "model"
    text = "\n".join(explanation.lines())
    assert "would run" not in text
    assert "a call raises NotBuiltError:" in text
    assert f"Run `tilewright build --filter {explanation.choice.tactic.kernel}`." in text
    assert f"; {third}, which is tuned for it, is not built (TILEWRIGHT_JIT=0)." in text
    assert "is not built" in explanation.as_json()["raises"]


def test_why_says_no_word_twice(context: Context) -> None:
    problem = Problem(32, 5120, 25600)
    best = FAMILY.rank(context.registry.route("gemm", H200), problem, H200)[0].tactic
    text = "\n".join(explain(context, FAMILY, problem, H200, best).lines())
    assert "Why (demanded): the caller names it." in text


def test_a_tuned_tactic_that_the_model_does_not_weigh_is_listed(
    tmp_path: Path, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(4096, 4096, 4096)
    best = FAMILY.rank(context.registry.route("gemm", H200), problem, H200)[0].tactic
    raster = type(best).parse(f"{best}@raster=along_m" if "@" not in str(best) else f"{best},raster=along_m")
    tune(tmp_path, context, [Entry(problem, raster, 2e-4)])
    explanation = explain(context, FAMILY, problem, H200)
    assert explanation.choice.tactic == raster
    assert [row.tactic for row in explanation.rows].count(raster) == 1
    assert sum(line.startswith(">") for line in explanation.lines()) == 1
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")  # it is passed over, because it is not built
    explanation = explain(context, FAMILY, problem, H200)
    assert explanation.choice.source == "model"
    assert [(row.tactic, row.tuned_seconds) for row in explanation.rows].count((raster, 2e-4)) == 1


def test_a_refused_file_is_named(tmp_path: Path, context: Context) -> None:
    problem = Problem(32, 5120, 25600)
    tactic = FAMILY.rank(context.registry.route("gemm", H200), problem, H200)[0].tactic
    header = Header.of(H200, context.registry, "gemm", cutlass="3.9.2")
    path = paths.tuned_file(tmp_path, H200.name, "gemm")
    tuned_writing.update(path, header, FAMILY, [Entry(problem, tactic, 1e-5)])
    text = "\n".join(explain(context, FAMILY, problem, H200).lines())
    assert "Tuned files: " in text
    assert "its CUTLASS is 3.9.2" in text


def test_a_kernel_that_no_model_knows(table: Any, blockscaled_row: Any, tmp_path: Path) -> None:
    from tilewright.families.blockscaled_gemm.family import FAMILY as BLOCKSCALED  # noqa: PLC0415

    table(tmp_path, "m", [blockscaled_row("new", arch="sm_100f")], family="blockscaled_gemm")
    context = Context(Registry(tmp_path, libraries=lambda module: []))
    unknown = altered(BLOCKSCALED, estimator=lambda record, problem, device: None)
    explanation = explain(context, unknown, BLOCKSCALED.problem(512, 512, 512), B200)
    assert explanation.choice.source == "default"
    assert {row.estimate for row in explanation.rows} == {None}
    assert "no estimate" in "\n".join(explanation.lines())
    assert "estimate" not in json.dumps(explanation.as_json()["candidates"])
