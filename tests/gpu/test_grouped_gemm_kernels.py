"""Every generated `grouped_gemm` kernel that this GPU runs, against float64: groups, padding, clusters,
splits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from generated_kernels import fixture, names, registry
from grouped_products import (
    MARK,
    call_in_place,
    check,
    clusters,
    elements_right,
    judge,
    made,
    of,
    spoil,
    tactics,
)

import tilewright
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.grouped_gemm.family import FAMILY
from tilewright.families.grouped_gemm.problem import Problem

SHAPES = Path(__file__).parents[2] / "benchmarks/shapes/grouped.yaml"
EDGES = yaml.safe_load(SHAPES.read_text(encoding="utf-8"))["edge"]

kernel = fixture("grouped_gemm", "tilewright build sm90_grouped_gemm")


def test_every_kernel_is_built() -> None:
    records = [registry().record(name) for name in names("grouped_gemm")]
    missing = [one.name for one in records if not registry().is_built(one)]
    assert not missing, f"{len(missing)} kernels are not built: run `tilewright build sm90_grouped_gemm`"


@pytest.mark.parametrize("c", ["none", "other", "out"])
def test_matrices_of_a_batch(kernel: KernelRecord, c: str) -> None:
    problem = of(kernel, groups=2, c=c != "none")
    if problem.a == "bf16":
        pytest.skip("tilewright.gemm computes it")
    if FAMILY.misfit_options(kernel, problem.kind):
        pytest.skip("it adds no C")
    operands = made(problem)
    for tactic in tactics(kernel, problem):
        if c == "out":
            call_in_place(operands, tactic)
            elements_right(operands, tactic)
            continue
        operands.out.fill_(MARK)
        check(operands, tactic)


@pytest.mark.parametrize("head", [(128, 64, 128), (40, 8, 56), (0, 16, 96), (192, 32, 0)])
def test_columns_that_are_skipped_stay(kernel: KernelRecord, head: tuple[int, int, int]) -> None:
    """In each head of D, whatever tiles there are."""
    left, gap, rest = head
    problem = of(kernel, groups=2, n=3 * (left + rest))
    if problem.a == "bf16" or problem.d == "f32":
        pytest.skip("of FP8 and a D of 16 bits alone")
    operands = made(problem)
    wide = torch.full((2, problem.m, problem.n + 3 * gap), MARK, dtype=torch.bfloat16, device="cuda")
    for tactic in tactics(kernel, problem):
        wide.fill_(MARK)
        tilewright.scaled_gemm(
            operands.a, operands.b, operands.scale_a, operands.scale_b,
            out=wide, head_left=left, head_gap=gap, head_right=rest, constant_b=problem.constant_b,
            tactic=tactic,
        )  # fmt: skip
        heads = wide.unflatten(-1, (3, left + gap + rest))
        assert (heads[..., left : left + gap] == MARK).all(), tactic
        operands.out.copy_(torch.cat([heads[..., :left], heads[..., left + gap :]], -1).flatten(-2))
        elements_right(operands, tactic)


@pytest.mark.parametrize("row_alignment", [4, 32, 64, 128])
@pytest.mark.parametrize("grouping", ["row_index", "ends"])
def test_rows_of_groups(kernel: KernelRecord, grouping: str, row_alignment: int) -> None:
    problem = of(kernel, m=1100, groups=5, grouping=grouping, row_alignment=row_alignment)
    operands = made(problem)
    spoil(operands)
    for tactic in tactics(kernel, problem):
        operands.out.fill_(MARK)
        check(operands, tactic)


@pytest.mark.parametrize("c", [False, True], ids=["plain", "c"])
def test_counts_of_rows(kernel: KernelRecord, c: bool) -> None:
    problem = of(kernel, groups=5, grouping="rows_valid", expected_m=130, c=c)
    if FAMILY.misfit_options(kernel, problem.kind):
        pytest.skip("it adds no C")
    operands = made(problem)
    operands.rows_valid[:3] = torch.tensor([0, 1, problem.m])
    spoil(operands)
    for tactic in tactics(kernel, problem):
        operands.out.fill_(MARK)
        check(operands, tactic)


@pytest.mark.parametrize("grouping", ["row_index", "ends", "rows_valid"])
def test_all_padding_is_zeroed(kernel: KernelRecord, grouping: str) -> None:
    """Where asked: also in tiles of padding alone, and behind the last group."""
    told = {"groups": 5, "grouping": grouping, "row_alignment": 32, "expected_m": 60, "zero_padding": True}
    problem = of(kernel, m=1100, **told)
    operands = made(problem)
    layout = next(iter(operands.layout.values()))
    if grouping == "ends":
        layout.copy_(torch.tensor([300, 300, 321, 700, 701]))
    elif grouping == "rows_valid":
        layout.copy_(torch.tensor([0, 1, 1100, 129, 64]))
    else:
        layout[200:700] = -1
    spoil(operands)
    counts = (operands.groups() >= 0).reshape(operands.out.shape[:-1])
    for tactic in tactics(kernel, problem):
        operands.out.fill_(float("nan"))
        operands.call(tactic)
        elements_right(operands, tactic)
        assert not operands.out[~counts].any(), f"{tactic}: padding is not zero"


def test_rows_in_any_order(kernel: KernelRecord) -> None:
    """Numbers of no group, too, whatever they are."""
    operands = made(of(kernel, groups=4, grouping="row_index"))
    index = operands.group_of_row
    given = torch.randint(-2, 6, index.shape, device="cuda", dtype=torch.int32)
    given[::17], given[5::19] = 2**31 - 1, -(2**31)
    index.copy_(given.where((given >= 0) & (given < 4), -1))
    spoil(operands)
    told = operands.changed(group_of_row=given)
    for tactic in tactics(kernel, operands.problem):
        operands.out.fill_(MARK)
        told.call(tactic)
        judge(operands, tactic)


@pytest.mark.parametrize("groups", [1, 31, 32, 33, 512])
@pytest.mark.parametrize("grouping", ["row_index", "ends", "rows_valid"])
def test_few_and_many_groups(kernel: KernelRecord, grouping: str, groups: int) -> None:
    m = 7 if grouping == "rows_valid" else 8 * groups
    operands = made(of(kernel, m=m, n=136, k=272, groups=groups, grouping=grouping, row_alignment=4))
    if grouping == "rows_valid":
        operands.rows_valid.random_(0, 8)
    spoil(operands)
    check(operands, Tactic(kernel.name))


@pytest.mark.parametrize("edge", EDGES, ids=str)
@pytest.mark.parametrize("row_alignment", [4, 32, 64, 128])
@pytest.mark.parametrize("c", [False, True], ids=["plain", "c"])
def test_edges(kernel: KernelRecord, edge: dict[str, Any], row_alignment: int, c: bool) -> None:
    """Each way to say the same groups, with NaN in rows of padding."""
    rows, ends, start = edge["rows"], [], 0
    for count in rows:
        ends.append(start + count)
        start = -(-ends[-1] // row_alignment) * row_alignment
    told = {"n": edge["n"], "k": edge["k"], "groups": len(ends), "row_alignment": row_alignment, "c": c}
    problem = of(kernel, m=max(start, 1), grouping="ends", **told)
    if FAMILY.misfit_options(kernel, problem.kind):
        pytest.skip("it adds no C")
    operands = made(problem)
    operands.group_ends.copy_(torch.tensor(ends))
    spoil(operands)
    check(operands, Tactic(kernel.name))
    index = operands.changed(group_ends=None, group_of_row=operands.groups())
    index.problem = replace(problem, grouping="row_index")
    index.out.fill_(MARK)
    check(index, Tactic(kernel.name))
    masked = made(of(kernel, m=max(rows), grouping="rows_valid", **told))
    masked.rows_valid.copy_(torch.tensor(rows))
    spoil(masked)
    check(masked, Tactic(kernel.name))


@pytest.mark.parametrize("c", ["none", "other", "out"])
def test_parts_of_k(kernel: KernelRecord, c: str) -> None:
    problem = of(kernel, m=304, k=1664, groups=7, grouping="k_sizes", c=c != "none")
    if reason := FAMILY.misfit(kernel, problem):
        pytest.skip(reason)
    operands = made(problem)
    sizes = operands.group_k
    for given in ([128, 0, 512, 0, 0, 896, 128], [0, 0, 0, 1664, 0, 0, 0], [256] * 6 + [128]):
        sizes.copy_(torch.tensor(given))
        for tactic in tactics(kernel, problem):
            operands.out.fill_(MARK)
            if c == "out":
                call_in_place(operands, tactic)
            else:
                operands.call(tactic)
            elements_right(operands, tactic)


def test_c_of_parts_of_k_has_rows_of_its_own(kernel: KernelRecord) -> None:
    """C is a slice of a wider tensor. A group without k gets its C alone."""
    problem = of(kernel, m=304, k=1024, groups=4, grouping="k_sizes", c=True)
    if reason := FAMILY.misfit(kernel, problem):
        pytest.skip(reason)
    operands = made(problem)
    operands.group_k.copy_(torch.tensor([512, 0, 512, 0]))
    assert operands.c is not None
    wide = operands.c.new_full((*operands.c.shape[:-1], operands.c.shape[-1] + 24), float("nan"))
    c = wide[..., 8:-16]
    c.copy_(operands.c)
    operands.c = c
    for tactic in tactics(kernel, problem):
        operands.out.fill_(MARK)
        operands.call(tactic)
        elements_right(operands, tactic)


@pytest.mark.parametrize("groups", [1, 33, 512])
def test_one_and_many_parts_of_k(kernel: KernelRecord, groups: int) -> None:
    problem = of(kernel, m=72, n=136, k=128 * groups, groups=groups, grouping="k_sizes")
    if reason := FAMILY.misfit(kernel, problem):
        pytest.skip(reason)
    operands = made(problem)
    sizes = torch.full((groups,), 128)
    if groups > 1:
        sizes[: groups // 2] = 0  # half of the groups have none, and one has all of theirs
        sizes[-1] += 128 * (groups // 2)
    operands.group_k.copy_(sizes)
    operands.call(Tactic(kernel.name))
    elements_right(operands)


def test_many_tiles_of_parts_of_little_k_are_added_in_place(kernel: KernelRecord) -> None:
    """Most parts have one stage of k, some none and some two; D holds C, to which TMA adds."""
    problem = of(kernel, m=640, n=6272, k=2048, groups=16, grouping="k_sizes", c=True)
    if reason := FAMILY.misfit(kernel, problem):
        pytest.skip(reason)
    operands = made(problem)
    operands.group_k.copy_(torch.tensor([128, 128, 0, 256] * 4))
    call_in_place(operands, Tactic(kernel.name))
    elements_right(operands)


def test_parts_of_k_count_in_whole_stages(kernel: KernelRecord) -> None:
    """What a group's k has beyond a multiple of a stage's is left out, and the next group begins there."""
    problem = of(kernel, m=304, k=1664, groups=4, grouping="k_sizes")
    if reason := FAMILY.misfit(kernel, problem):
        pytest.skip(reason)
    operands = made(problem)
    results = []
    for sizes in ([256, 0, 640, 768], [256 + 63, 1, 640 + 7, 768 + 40]):
        operands.group_k.copy_(torch.tensor(sizes))
        operands.out.fill_(MARK)
        operands.call(Tactic(kernel.name))
        results.append(operands.out.clone())
    assert torch.equal(*results)


def test_parts_of_k_end_with_k(kernel: KernelRecord) -> None:
    """A negative k counts as none, and no group gets more than what earlier ones leave. More groups than a
    warp reads at a time lie before the last ones."""
    problem = of(kernel, m=136, n=72, k=128 * 40, groups=80, grouping="k_sizes")
    if reason := FAMILY.misfit(kernel, problem):
        pytest.skip(reason)
    operands = made(problem)
    results = []
    for negative, rest, beyond in ((0, 128 * 38, 0), (-(2**31), 2**31 - 1, 2**30)):
        sizes = torch.zeros(80, dtype=torch.int64)
        sizes[[1, 34, 40, 60, 70]] = torch.tensor([128, negative, 128, rest, beyond])
        operands.group_k.copy_(sizes)
        operands.out.fill_(MARK)
        operands.call(Tactic(kernel.name))
        results.append(operands.out.clone())
    assert torch.equal(*results)


@pytest.mark.parametrize("grouping", ["row_index", "ends", "rows_valid"])
def test_a_tile_of_padding_alone_is_left_by_clusters_too(kernel: KernelRecord, grouping: str) -> None:
    """A cluster computes two tiles, one above the other; only the upper tile has rows that count."""
    swapped = kernel.config["swap_ab"]
    height = kernel.config["tile"][1 if swapped else 0]
    operands = made(of(kernel, m=2 * height, groups=1, grouping=grouping, row_alignment=4 * height))
    layout = next(iter(operands.layout.values()))
    if grouping == "row_index":
        layout.fill_(-1)
        layout[:3] = 0
    else:
        layout.fill_(3)
    for cluster in clusters(kernel, "", "1x2" if swapped else "2x1"):
        operands.out.fill_(MARK)
        operands.call(Tactic(kernel.name, cluster=cluster))
        rows = operands.out.reshape(2 * height, -1)
        assert (rows[:3] != MARK).any()
        assert (rows[3:height] == 0).all(), cluster
        assert (rows[height:] == MARK).all(), cluster


def test_a_graph_of_parts_is_replayed_with_others(kernel: KernelRecord) -> None:
    problem = of(kernel, m=304, k=1664, groups=4, grouping="k_sizes")
    if reason := FAMILY.misfit(kernel, problem):
        pytest.skip(reason)
    operands = made(problem)
    operands.call(Tactic(kernel.name))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        operands.call(Tactic(kernel.name))
    for given in ([0, 640, 0, 1024], [1280, 128, 128, 128]):
        operands.group_k.copy_(torch.tensor(given))
        operands.out.fill_(MARK)
        graph.replay()
        elements_right(operands)


def test_nothing_counts(kernel: KernelRecord) -> None:
    for grouping, name in (
        ("row_index", "group_of_row"),
        ("ends", "group_ends"),
        ("rows_valid", "rows_valid"),
    ):
        operands = made(of(kernel, groups=3, grouping=grouping))
        getattr(operands, name).fill_(-1 if grouping == "row_index" else 0)
        operands.call(Tactic(kernel.name))
        assert (operands.out == MARK).all()


def test_a_graph_is_replayed_with_other_groups(kernel: KernelRecord) -> None:
    for grouping in ("row_index", "ends", "rows_valid"):
        problem = of(kernel, m=700, groups=6, grouping=grouping, expected_m=200)
        operands, other = made(problem), made(problem, seed=3)
        operands.call(Tactic(kernel.name))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            operands.call(Tactic(kernel.name))
        for layout in (other.layout, {name: one.clone() for name, one in operands.layout.items()}):
            for name, tensor in operands.layout.items():
                tensor.copy_(layout[name])
            operands.out.fill_(MARK)
            graph.replay()
            elements_right(operands)


def test_warpgroups_without_rows_keep_up(kernel: KernelRecord) -> None:
    """Every eighth tile has rows for one of two warpgroups alone: the other goes round the ring of stages by
    itself, many times round, from where its stores have let it go on."""
    if kernel.config["swap_ab"] or kernel.config["tile"][0] == 64:
        pytest.skip("one warpgroup has a tile's rows, or all of them")
    operands = made(of(kernel, m=8192, n=4096, k=4096, groups=8, grouping="ends"))
    starts = torch.arange(8, device="cuda", dtype=torch.int32) * 1024
    operands.group_ends.copy_(starts + 1024 - 64)
    for tactic in (Tactic(kernel.name, cluster=cluster) for cluster in clusters(kernel, "", "1x2")):
        for _ in range(20):
            operands.call(tactic)
        check(operands, tactic)


@pytest.mark.parametrize("grouping", ["none", "row_index", "k_sizes"])
def test_clusters_that_start_late(kernel: KernelRecord, grouping: str) -> None:
    """A long run leaves its last tiles to clusters that start where others end (grouped_gemm/maker.hpp)."""
    rows, columns = kernel.config["tile"][:2]
    if rows * columns < 128 * 96:
        pytest.skip("its tiles are short")
    groups = 1 if grouping == "none" else 3
    k = 4096 * groups if grouping == "k_sizes" else 4096
    problem = of(kernel, m=8192 + 4, n=8192, k=k, groups=groups, grouping=grouping)
    if problem.a == "bf16" and grouping == "none":
        pytest.skip("tilewright.gemm computes it")
    if reason := FAMILY.misfit(kernel, problem):
        pytest.skip(reason)
    operands = made(problem)
    for cluster in clusters(kernel, "1x1", "1x2", "2x1"):
        operands.out.fill_(MARK)
        check(operands, Tactic(kernel.name, cluster=cluster))


def test_equal_bits_every_time(kernel: KernelRecord) -> None:
    operands = made(of(kernel, m=520, groups=3, grouping="ends", row_alignment=32))
    for tactic in tactics(kernel, operands.problem):
        operands.call(tactic)
        first = operands.out.clone()
        for _ in range(20):
            operands.call(tactic)
            assert torch.equal(operands.out, first)


def test_extents_that_no_tile_divides(kernel: KernelRecord) -> None:
    unit = kernel.facts["alignment"]
    for m, n, k in ((1, unit["d"], unit["a"]), (5, 24, 48), (129, 264, 144), (65, 136, 4112)):
        problem = of(kernel, m=m, n=n, k=k)
        if problem.a == "bf16":
            pytest.skip("tilewright.gemm computes it")
        check(made(problem), Tactic(kernel.name))


def test_what_is_selected_is_right() -> None:
    for grouping in ("row_index", "ends", "rows_valid"):
        operands = made(Problem(m=512, n=512, k=1024, groups=4, grouping=grouping, expected_m=100))
        try:
            check(operands)
        except tilewright.errors.NotBuiltError as error:
            pytest.skip(error.message)
