"""Programs that measure packed weights: what they draw, which tactics they time, and the pages they write."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from benchmarks.compare import packed_experts, packed_fp8_experts, packed_fp8_weights, packed_weights
from benchmarks.fit import expert_times
from benchmarks.lib import beside_peers, experts, machine, tactic_times
from benchmarks.lib.experts import Layer

HEAD = {
    "command": "python -m P", "gpu": "NVIDIA H200", "driver": "580", "torch": "2.11", "date": "2026-11-30",
    "humming": "0.1",
}  # fmt: skip
LAYER = Layer("8 square", "mxfp4", 8, 2, 4096, 4096)


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    """The options of a run on a machine that seems to have a GPU."""
    monkeypatch.setattr(machine, "require_gpu", lambda: None)
    monkeypatch.setattr(machine, "gpu_run", lambda module: HEAD | {"command": f"python -m {module}"})
    parser = argparse.ArgumentParser()
    beside_peers.add_options(parser)
    return parser.parse_args(["--output", str(tmp_path / "page")])


def numbered(head: dict[str, str], rows: list[dict[str, Any]]) -> Iterator[str]:
    yield head["command"]
    yield from (f"{row['problem']}" for row in rows)


def run(options: argparse.Namespace, compiled: list[int] | None = None, **settings: Any) -> None:
    beside_peers.run(
        "benchmarks.P", options, [10, 20, 30], compile_peer=(compiled or []).append,
        measure=lambda problem: {"problem": problem}, markdown=numbered, **settings,
    )  # fmt: skip


def test_a_run_writes_a_page_and_its_rows(options: argparse.Namespace) -> None:
    run(options, keep_rows=True)
    page = options.output.with_suffix(".md").read_text()
    assert page == "python -m benchmarks.P\n10\n20\n30\n"
    record = json.loads(options.output.with_suffix(".json").read_text())
    assert record["rows"] == [{"problem": 10}, {"problem": 20}, {"problem": 30}]
    assert record["humming"] == beside_peers.humming_release()


def test_a_part_has_every_nth_problem_and_a_time_ends_a_run(options: argparse.Namespace) -> None:
    options.part = (2, 2)
    run(options)
    assert options.output.with_suffix(".md").read_text().splitlines()[1:] == ["20"]
    assert not options.output.with_suffix(".json").exists()
    options.output = options.output.with_name("late")
    options.seconds = -1.0
    run(options)
    assert not options.output.with_suffix(".md").exists()


def test_compiling_measures_nothing(options: argparse.Namespace) -> None:
    options.compile = True
    compiled = [0]
    run(options, compiled)
    assert compiled == [0, 10, 20, 30]
    assert not options.output.with_suffix(".md").exists()


def test_rows_fall_to_the_experts_that_tokens_choose() -> None:
    ends = experts.group_ends(torch.tensor([[0, 2], [2, 3]]), 5)
    assert ends.tolist() == [1, 1, 3, 4, 4]
    assert experts.touched_experts([ends, torch.tensor([4, 4, 4, 4, 4])]) == 2.0
    assert experts.humming_layouts([ends])[0].tolist() == [0, 1, 1, 3, 4, 4]
    stack = SimpleNamespace(weight=torch.zeros(5, 7), scale=torch.zeros(5, 3))
    assert experts.weight_bytes(stack, [ends]) == 3 * (7 + 3)


def test_each_token_chooses_so_many_different_experts() -> None:
    generator = torch.Generator().manual_seed(0)
    ends = experts.routed(50, LAYER, generator)
    counts = ends.diff(prepend=ends.new_zeros(1))
    assert (ends[-1], len(ends)) == (100, 8)
    assert counts.max() <= 50


def test_one_token_chooses_others_each_time() -> None:
    routings = experts.routings(1, LAYER, torch.Generator().manual_seed(0))
    assert len(routings) == experts.ROUTINGS
    assert torch.stack([ends.diff(prepend=ends.new_zeros(1)) for ends in routings]).sum(0).tolist() == [1] * 8


def test_a_random_router_fills_the_rows_of_a_problem() -> None:
    routed = next(expert_times.drawn(1))
    ends = expert_times.ends_of(routed, torch.Generator().manual_seed(0))
    assert (len(ends), int(ends[-1])) == (routed.problem.groups, routed.problem.m)


def candidate(name: str, seconds: float) -> Any:
    return SimpleNamespace(record=SimpleNamespace(name=name), estimate=SimpleNamespace(seconds=seconds))


def test_tactics_that_may_be_chosen_are_timed_and_the_best_of_each_kernel() -> None:
    ranked = [candidate("a", 1.0 + place / 100) for place in range(tactic_times.MOST_REFINED + 5)]
    ranked += [candidate("b", 1.8), candidate("b", 1.9), candidate("b", 1.95), candidate("c", 2.1)]
    kept = tactic_times.worth_timing(ranked)
    assert kept == [*ranked[: tactic_times.MOST_REFINED], *ranked[-4:-2]]


def test_timed_problems_are_lines_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "require_gpu", lambda: None)
    monkeypatch.setattr(tactic_times, "Timer", lambda: None)
    monkeypatch.setattr(tactic_times, "built", lambda family: [1, 2, 3])
    output = tmp_path / "times.jsonl"
    monkeypatch.setattr("sys.argv", ["P", "--seed", "3", "--output", str(output)])
    line = {"first": "slow", "us": {"slow": [3.0, 1.0], "fast": [2.0, 1.5]}}
    tactic_times.run(
        "P", ["mixed_gemm"], seed=1, output="unused",
        drawn=lambda seed: iter([seed, seed + 1]),
        measured=lambda problem, timer: line if problem == 4 else None,
    )  # fmt: skip
    assert [json.loads(text) for text in output.read_text().splitlines()] == [line]
    printed = capsys.readouterr().out.splitlines()
    assert printed == ["3 kernels of mixed_gemm are built", "4 best 2.0 fast first 1.500 of 2"]


def table(lines: Iterator[str], name: str) -> list[list[str]]:
    """The cells of the page's table whose first column has that name."""
    text = list(lines)
    start = next(place for place, line in enumerate(text) if line.startswith(f"| {name} |"))
    rows = []
    for line in text[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_a_page_of_products_has_means_by_peer_format_and_rows() -> None:
    rows = [
        {
            "problem": packed_weights.Problem(m, 4096, 4096, weight_format="mxfp4"),
            "tactic": "mixed_gemm_sm90_x",
            "seconds": {"ours": 1e-5, "torch.mm": 3e-5} | ({"humming": 2e-5} if m == 16 else {}),
        }
        for m in (16, 17, 5000)
    ]  # fmt: skip
    page = list(packed_weights.markdown(HEAD, rows))
    assert "Humming 0.1, 2026-11-30. Microseconds" in page[2]
    means = table(iter(page), "peer")
    assert ["humming", "all", "all", "1", "2.000", "2.000", "1.000"] in means
    assert ["torch.mm", "mxfp4", "17 to 32", "1", "3.000", "3.000", "1.000"] in means
    assert [cells[2] for cells in means if cells[:2] == ["torch.mm", "all"]] == [
        "1 to 16", "17 to 32", "4097 and more",
    ]  # fmt: skip
    first, second, _ = table(iter(page), "n x k")
    assert first[:8] == ["4096 x 4096", "16", "mxfp4", "10.0", "20.0", "30.0", "2.000", "3.000"]
    assert second[4:8] == ["", "30.0", "", "3.000"]
    assert first[-1] == "`x`"


def test_products_by_fp8_activations_have_rates_of_arithmetic() -> None:
    problem = next(packed_fp8_weights.drawn(["mxfp4"], 1, 1, fast_accum=True))
    assert problem.a_scale
    assert problem.fast_accum
    row = {"problem": problem, "tactic": "x", "seconds": {"ours": 1e-3}}
    (cells,) = table(packed_fp8_weights.markdown(HEAD, [row]), "n x k")
    assert cells[-2:] == [f"{problem.flops / 1e9:.0f}", "`x`"]


def test_a_page_of_experts_has_means_by_peer_and_layer() -> None:
    row = {
        "layer": LAYER, "tokens": 8, "bytes": 1e7, "flops": 1e9, "tactic": "mixed_grouped_gemm_sm90_x",
        "tactics": {"x": 1e-5, "y": 9e-6}, "seconds": {"ours": 1e-5, "torch": 2e-5},
    }  # fmt: skip
    page = list(packed_experts.markdown(HEAD, [row]))
    assert table(iter(page), "peer") == [["torch", "8 square, mxfp4", "1", "2.000", "2.000", "1.000"]]
    (cells,) = table(iter(page), "layer")
    assert cells[3:] == ["8", "10.0", "9.0", "", "20.0", "", "2.000", "1.00", "100", "`x`"]


def test_a_page_of_experts_is_written_again_from_its_times(
    options: argparse.Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Today's model chooses among the tactics that were timed: here the last of its ranking."""
    ranked = {
        side: [
            str(choice.tactic)
            for choice in packed_fp8_experts.ranked(packed_fp8_experts.problem_of(LAYER, 16, side))
        ]
        for side in ("ours", "fast")
    }
    seconds = {ranked["ours"][-1]: 2e-5, ranked["fast"][-1]: 1e-5, "torch": 4e-5}
    row = {"layer": LAYER, "tokens": 16, "bytes": 1e7, "seconds": seconds}
    beside_peers.run(
        "benchmarks.P", options, [LAYER], compile_peer=print, measure=lambda layer: row,
        markdown=packed_fp8_experts.markdown, keep_rows=True,
    )  # fmt: skip
    page = options.output.with_suffix(".md").read_text()
    lines = table(iter(page.splitlines()), "experts, chosen")
    assert [(cells[4], cells[5], cells[8], cells[10]) for cells in lines] == [
        ("ours", "20.0", "40.0", "2.000"),
        ("fast", "10.0", "40.0", "4.000"),
    ]
    times = options.output.with_suffix(".json")
    monkeypatch.setattr("sys.argv", ["P", "--again", str(times), "--output", str(tmp_path / "again")])
    packed_fp8_experts.main()
    assert (tmp_path / "again.md").read_text() == page
