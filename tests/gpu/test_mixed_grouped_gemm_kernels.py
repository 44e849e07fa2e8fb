"""Every generated `mixed_grouped_gemm` kernel that this GPU runs, against float64 of the decoded weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from expert_rows import counts_of, ends_of, int32
from generated_kernels import fixture, names, registry
from late_writes import check_waits
from packed_codes import HALVES, gated_codes

import tilewright
from tilewright import weight_layout
from tilewright.declarations.table import KernelRecord
from tilewright.families.gemm.op import ACTIVATED
from tilewright.families.mixed_gemm.problem import GATED_MULTIPLE, SILU_MUL
from tilewright.families.mixed_gemm.reference import decoded, exact
from tilewright.families.mixed_grouped_gemm import measuring
from tilewright.families.mixed_grouped_gemm.op import groups_of_rows
from tilewright.families.mixed_grouped_gemm.problem import Problem
from tilewright.formats.dtypes import dtype_of

MARK = 77.0  # in D before a kernel writes to it
TACTICS = ["", "@cluster=2x1", "@cluster=4x1", "@raster=along_n,swizzle=4"]
_ERRORS = {"bf16": 4e-3, "f16": 6e-4}  # of the norm: D is rounded


def tactics_of(record: KernelRecord, tactics: Sequence[str] = TACTICS) -> list[str]:
    """The tactics that a kernel runs with: stream kernels have no clusters."""
    is_stream = record.config["mainloop"] == "stream"
    return [tactic for tactic in tactics if not (is_stream and "cluster" in tactic)]


kernel = fixture("mixed_grouped_gemm", "tilewright build sm90_mixed_grouped_gemm")


def test_every_kernel_is_built() -> None:
    missing = [
        name for name in names("mixed_grouped_gemm") if not registry().is_built(registry().record(name))
    ]
    assert not missing, (
        f"{len(missing)} kernels are not built: run `tilewright build sm90_mixed_grouped_gemm`"
    )


def problem_of(record: KernelRecord, m: int, n: int, k: int, groups: int, **options: Any) -> Problem:
    """A problem of the kernel; a gated one has a few rows of W more where n is no multiple of 16."""
    a = record.config["a"]
    if record.config["activation"] == SILU_MUL:
        n, options = -(-n // GATED_MULTIPLE) * GATED_MULTIPLE, options | {"activation": SILU_MUL}
    return Problem(m, n, k, groups, a, a, record.config["weight_format"], **options)


class Call:
    """A call with random operands, in tensors that are wider and hold NaN besides."""

    def __init__(
        self,
        record: KernelRecord,
        problem: Problem,
        groups: dict[str, torch.Tensor],
        *,
        factors: bool = False,
    ) -> None:
        self.problem = problem
        self.weight_of = exact if record.config["mainloop"] == "stream" else decoded
        generator = torch.Generator("cuda").manual_seed(problem.m + problem.n)
        dtype = dtype_of(problem.a)
        batch = (problem.groups,) if problem.own_rows else ()
        wide = torch.full((*batch, problem.m + 2, problem.k + 16), float("nan"), device="cuda", dtype=dtype)
        a = wide[..., 1:-1, 8:-8]
        a.copy_(torch.randn(a.shape, generator=generator, device="cuda"))
        packed = measuring.random_weights(problem, generator)
        self.arguments: dict[str, Any] = {
            "a": a, "weight": packed.weight, "scale": packed.scale, "n": problem.n,
            "weight_format": problem.weight_format, "row_alignment": problem.row_alignment,
            "activation": problem.activation, **groups,
        }  # fmt: skip
        if problem.bias:
            shape = (problem.groups, problem.n)
            self.arguments["bias"] = torch.randn(shape, generator=generator, device="cuda").to(dtype)
        if factors:
            factor = torch.rand(problem.groups, generator=generator, device="cuda")
            self.arguments["group_factors"] = factor + 0.25
        layouts = dict.fromkeys(("group_of_row", "group_ends", "rows_valid"))
        self.groups = groups_of_rows({"a": a, **layouts, **groups}, problem)
        a[self.groups < 0] = float("nan")  # what padding holds reaches no other row
        columns = problem.d_columns + 16
        self.wide = torch.empty((*batch, problem.m + 2, columns), device="cuda", dtype=dtype)

    @property
    def out(self) -> torch.Tensor:
        return self.wide[..., 1:-1, 8:-8]

    def run(self, tactic: str, **options: Any) -> None:
        self.wide.fill_(MARK)
        tilewright.packed_grouped_gemm(**self.arguments, **options, out=self.out, tactic=tactic)

    def expected(self, alpha: float = 1.0) -> torch.Tensor:
        """Rows of padding are zero."""
        problem, x = self.problem, self.arguments
        result = torch.zeros(self.out.shape, dtype=torch.float64, device="cuda")
        for group in self.groups.unique().tolist():
            if group < 0:
                continue
            own = self.groups == group
            packed = weight_layout.Packed(x["weight"][group], x["scale"][group])
            weight = self.weight_of(packed, measuring.dense_problem(problem)).double()
            factor = alpha * (float(x["group_factors"][group]) if "group_factors" in x else 1.0)
            products = factor * (x["a"][own].double() @ weight.T)
            if problem.bias:
                products += x["bias"][group].double()
            result[own] = ACTIVATED[problem.activation](products)
        return result

    def check(self, right: torch.Tensor, what: str) -> None:
        """Norms, each element, padding, and what lies around D."""
        counts = self.groups >= 0
        actual, expected = self.out[counts].double(), right[counts]
        rest = self.out[~counts]
        assert bool(((rest == 0) | (rest == MARK)).all()), f"{what}: padding leaks"
        if actual.numel():
            difference = actual - expected
            error = float(difference.norm() / expected.norm())
            assert error < _ERRORS[self.problem.d], f"{what}: {error}"
            rms = float(expected.square().mean().sqrt())
            excess = difference.abs() - torch.finfo(self.out.dtype).eps * expected.abs() - 2e-3 * rms
            assert bool((excess <= 0).all()), f"{what}: an element is off by {float(difference.abs().max())}"
        self.out.fill_(MARK)
        assert bool((self.wide == MARK).all()), f"{what}: wrote beyond D"


@pytest.mark.parametrize(("n", "k", "groups"), [(8, 32, 8), (328, 416, 8), (1032, 2080, 32)])
@pytest.mark.parametrize("alignment", [1, 8])
def test_groups_by_their_ends(kernel: KernelRecord, n: int, k: int, groups: int, alignment: int) -> None:
    ends = ends_of(counts_of(kernel.config["tile"][1], groups), alignment)
    m = int(ends[-1]) + 3  # rows behind the last group
    call = Call(kernel, problem_of(kernel, m, n, k, groups, row_alignment=alignment), {"group_ends": ends})
    right = call.expected()
    for tactic in tactics_of(kernel):
        call.run(kernel.name + tactic)
        call.check(right, f"{kernel.name}{tactic} {call.problem}")


@pytest.mark.parametrize("sorted_rows", [True, False])
def test_groups_of_rows(kernel: KernelRecord, sorted_rows: bool) -> None:
    """In order, with padding, or mixed: tiles hold rows of several groups."""
    m, groups = 2 * kernel.config["tile"][1] + 21, 6
    generator = torch.Generator("cuda").manual_seed(3)
    index = torch.randint(-1, groups + 1, (m,), generator=generator, device="cuda").int()
    index = index.sort().values if sorted_rows else index
    problem = problem_of(kernel, m, 200, 544, groups, grouping="row_index")
    call = Call(kernel, problem, {"group_of_row": index})
    right = call.expected()
    for tactic in tactics_of(kernel):
        call.run(kernel.name + tactic)
        call.check(right, f"{kernel.name}{tactic} {problem}")


def test_rows_that_count(kernel: KernelRecord) -> None:
    """Each group has a matrix of its own, of which the first rows count."""
    tile = kernel.config["tile"][1]
    counts, m = counts_of(tile, 8), 2 * tile + 5
    problem = problem_of(kernel, m, 264, 672, 8, grouping="rows_valid")
    call = Call(kernel, problem, {"rows_valid": int32(*counts)})
    right = call.expected()
    for tactic in tactics_of(kernel):
        call.run(kernel.name + tactic)
        call.check(right, f"{kernel.name}{tactic} {problem}")


@pytest.mark.parametrize("which", [0, 57, 127])
def test_all_rows_of_one_group(kernel: KernelRecord, which: int) -> None:
    """One of 128 groups has all rows: the scheduler reads 32 groups at a time."""
    m = 2 * kernel.config["tile"][1] + 1
    ends = int32(*[0 if group < which else m for group in range(128)])
    call = Call(kernel, problem_of(kernel, m, 72, 160, 128), {"group_ends": ends})
    call.run(kernel.name)
    call.check(call.expected(), f"{kernel.name} {call.problem}")


def test_no_row_counts(kernel: KernelRecord) -> None:
    call = Call(
        kernel, problem_of(kernel, 40, 72, 160, 4, grouping="rows_valid"), {"rows_valid": int32(0, 0, 0, 0)}
    )
    call.run(kernel.name)
    assert bool((call.wide == MARK).all())


@pytest.mark.parametrize("half", HALVES)
def test_every_code_and_scale_of_a_gated_weight(kernel: KernelRecord, half: str) -> None:
    """Every row of up where gate is 32, whose SiLU is 32: to the bit. Every row of gate where up is 1. The
    weight is that of the last of three experts."""
    if kernel.config["activation"] != SILU_MUL:
        return
    codes = gated_codes(kernel, half)
    problem = problem_of(kernel, codes.k, 2 * codes.n, codes.k, 3, bias=True)
    weight, scale = (torch.stack([torch.zeros_like(x)] * 2 + [x]) for x in codes.packed)
    actual = tilewright.packed_grouped_gemm(
        torch.eye(codes.k, device="cuda", dtype=dtype_of(problem.a)), weight, scale, n=problem.n,
        weight_format=problem.weight_format, group_ends=int32(0, 0, codes.k),
        bias=torch.stack([codes.bias + 1, codes.bias + 2, codes.bias]), activation=SILU_MUL,
        tactic=kernel.name,
    )  # fmt: skip
    weight_of = exact if kernel.config["mainloop"] == "stream" else decoded
    codes.check(weight_of, measuring.dense_problem(problem), actual.T)


def test_factors_alpha_and_bias(kernel: KernelRecord) -> None:
    tile = kernel.config["tile"][1]
    ends = ends_of(counts_of(tile, 12))
    problem = problem_of(kernel, int(ends[-1]), 328, 416, 12, bias=True)
    call = Call(kernel, problem, {"group_ends": ends}, factors=True)
    right = call.expected(0.37)
    for tactic in tactics_of(kernel, ("", "@cluster=2x1")):
        call.run(kernel.name + tactic, alpha=0.37)
        call.check(right, f"{kernel.name}{tactic}")


def test_a_graph_is_replayed_with_other_groups(kernel: KernelRecord) -> None:
    tile = kernel.config["tile"][1]
    counts = counts_of(tile, 8)
    ends = ends_of(counts)
    problem = problem_of(kernel, int(ends[-1]), 136, 288, 8)
    call = Call(kernel, problem, {"group_ends": ends})
    call.run(kernel.name)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tilewright.packed_grouped_gemm(**call.arguments, out=call.out, tactic=kernel.name)
    for turned in (counts[::-1], [0] * 7 + [problem.m], [problem.m] + [0] * 7):
        ends.copy_(ends_of(turned))
        groups = {"group_of_row": None, "rows_valid": None, **call.arguments}
        call.groups = groups_of_rows(groups, problem)
        call.wide.fill_(MARK)
        graph.replay()
        call.check(call.expected(), f"{kernel.name} {turned}")


def test_equal_runs(kernel: KernelRecord) -> None:
    """The order of sums is fixed."""
    ends = ends_of(counts_of(kernel.config["tile"][1], 8))
    call = Call(kernel, problem_of(kernel, int(ends[-1]), 520, 1056, 8), {"group_ends": ends})
    for tactic in tactics_of(kernel, ("", "@cluster=2x1")):
        call.run(kernel.name + tactic)
        first, differ = call.out.clone(), torch.zeros((), dtype=torch.int64, device="cuda")
        for _ in range(200):
            tilewright.packed_grouped_gemm(**call.arguments, out=call.out, tactic=kernel.name + tactic)
            differ += (call.out != first).sum()
        assert int(differ) == 0, tactic


def test_rows_do_not_depend_on_other_rows(kernel: KernelRecord) -> None:
    """Bits of a row, in whatever group sizes: what batch-invariant mode rests on."""
    if kernel.config["k_groups"] > 1:
        pytest.skip("which group of warpgroups adds up a stage depends on the tiles before")
    problem = problem_of(kernel, 130, 264, 1056, 3, grouping="row_index")
    index = torch.zeros(130, dtype=torch.int32, device="cuda")
    index[100:] = 2
    call = Call(kernel, problem, {"group_of_row": index})
    call.run(kernel.name)
    whole = call.out.clone()
    x = call.arguments
    for rows in (slice(0, 1), slice(3, 20), slice(90, 130)):
        part = {**x, "a": x["a"][rows], "group_of_row": index[rows].clone()}
        assert torch.equal(tilewright.packed_grouped_gemm(**part, tactic=kernel.name), whole[rows])


def test_waits_for_the_kernel_before(kernel: KernelRecord) -> None:
    ends = int32(5, 5, 12, 17)
    problem = problem_of(kernel, 17, 200, 544, 4, bias=True)
    call = Call(kernel, problem, {"group_ends": ends}, factors=True)
    right = call.expected()
    names_of_operands = ("a", "weight", "scale", "bias", "group_factors", "group_ends")
    tensors = {name: call.arguments[name] for name in names_of_operands}
    columns = problem.d_columns
    out = torch.full((17, columns + 8), float("nan"), device="cuda", dtype=call.out.dtype)[:, :columns]

    def run() -> None:
        tilewright.packed_grouped_gemm(**call.arguments, out=out, tactic=kernel.name)

    def compare(late: str) -> None:
        error = float((out.double() - right).norm() / right.norm())
        assert error < _ERRORS[problem.d], f"{kernel.name} {late}: {error}"

    check_waits(tensors, {"out": out}, run, compare)
