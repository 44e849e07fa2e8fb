"""Every generated `mixed_fp8_grouped_gemm` kernel that this GPU runs, against float64 of the weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from expert_rows import counts_of, ends_of, int32
from generated_kernels import fixture, names, registry
from late_writes import check_waits
from mixed_fp8_bounds import rounding_bound

import tilewright
from tilewright import weight_layout
from tilewright.declarations.table import KernelRecord
from tilewright.families.mixed_fp8_gemm.measuring import LARGEST_SCALE
from tilewright.families.mixed_fp8_grouped_gemm import measuring
from tilewright.families.mixed_fp8_grouped_gemm.problem import Problem
from tilewright.families.mixed_grouped_gemm.op import groups_of_rows
from tilewright.formats.dtypes import dtype_of

MARK = 77.0  # in D before a kernel writes to it
TACTICS = ["", "@cluster=2x1", "@cluster=4x1", "@raster=along_n,swizzle=4"]
_ERRORS = {"bf16": 4e-3, "f16": 1e-3}  # of the norm: D is rounded, and so are the tensor core's sums

kernel = fixture("mixed_fp8_grouped_gemm", "tilewright build sm90_mixed_fp8_grouped_gemm")


def test_every_kernel_is_built() -> None:
    missing = [
        name for name in names("mixed_fp8_grouped_gemm") if not registry().is_built(registry().record(name))
    ]
    assert not missing, (
        f"{len(missing)} kernels are not built: run `tilewright build sm90_mixed_fp8_grouped_gemm`"
    )


def problem_of(
    record: KernelRecord, m: int, n: int, k: int, groups: int, *, row_factors: bool = False, **options: Any
) -> Problem:
    kind = {name: record.config[name] for name in ("d", "weight_format", "fast_accum")}
    return Problem(m, n, k, groups, a_scale=row_factors, **kind, **options)


class Call:
    """A call with random operands, in tensors that are wider and hold NaN besides."""

    def __init__(self, problem: Problem, groups: dict[str, torch.Tensor], *, factors: bool = False) -> None:
        self.problem = problem
        generator = torch.Generator("cuda").manual_seed(problem.m + problem.n)
        dtype = dtype_of(problem.d)
        batch = (problem.groups,) if problem.own_rows else ()
        wide = torch.full((*batch, problem.m + 2, problem.k + 32), float("nan"), device="cuda")
        numbers = wide[..., 1:-1, 16:-16]
        numbers.copy_(torch.randn(numbers.shape, generator=generator, device="cuda"))
        packed = measuring.random_weights(problem, generator)
        layouts = dict.fromkeys(("group_of_row", "group_ends", "rows_valid"))
        self.groups = groups_of_rows({"a": numbers, **layouts, **groups}, problem)
        numbers[self.groups < 0] = float("nan")  # what padding holds reaches no other row
        self.arguments: dict[str, Any] = {
            "a": wide.to(torch.float8_e4m3fn)[..., 1:-1, 16:-16], "weight": packed.weight,
            "scale": packed.scale, "n": problem.n, "weight_format": problem.weight_format,
            "row_alignment": problem.row_alignment, "fast_accum": problem.fast_accum,
            "largest_scale": LARGEST_SCALE, **groups,
        }  # fmt: skip
        if problem.a_scale:
            factors_of_rows = torch.rand(problem.scales_shape, generator=generator, device="cuda")
            self.arguments["a_scale"] = factors_of_rows + 0.5
        if problem.bias:
            shape = (problem.groups, problem.n)
            self.arguments["bias"] = torch.randn(shape, generator=generator, device="cuda").to(dtype)
        if factors:
            factor = torch.rand(problem.groups, generator=generator, device="cuda")
            self.arguments["group_factors"] = factor + 0.25
        self.wide = torch.empty((*batch, problem.m + 2, problem.n + 16), device="cuda", dtype=dtype)

    @property
    def out(self) -> torch.Tensor:
        return self.wide[..., 1:-1, 8:-8]

    def run(self, tactic: str, **options: Any) -> None:
        self.wide.fill_(MARK)
        tilewright.packed_fp8_grouped_gemm(**self.arguments, **options, out=self.out, tactic=tactic)

    def expected(self, alpha: float = 1.0) -> torch.Tensor:
        """Rows of padding are zero."""
        problem, x = self.problem, self.arguments
        result = torch.zeros(self.out.shape, dtype=torch.float64, device="cuda")
        for group in self.groups.unique().tolist():
            if group < 0:
                continue
            own = self.groups == group
            weight = measuring.decoded_group(x["weight"], x["scale"], group, problem).double()
            factor = alpha * (float(x["group_factors"][group]) if "group_factors" in x else 1.0)
            result[own] = factor * (x["a"].double()[own] @ weight.T)
            if "a_scale" in x:
                result[own] *= x["a_scale"][own][:, None].double()
            if problem.bias:
                result[own] += x["bias"][group].double()
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
            # Sums that stay in the tensor core lose more bits of an element the longer k is.
            more = (2e-2 if self.problem.fast_accum else 4e-3) * rms
            excess = difference.abs() - torch.finfo(self.out.dtype).eps * expected.abs() - more
            assert bool((excess <= 0).all()), f"{what}: an element is off by {float(difference.abs().max())}"
        self.out.fill_(MARK)
        assert bool((self.wide == MARK).all()), f"{what}: wrote beyond D"


@pytest.mark.parametrize(("n", "k", "groups"), [(8, 32, 8), (328, 416, 8), (1032, 2080, 32)])
@pytest.mark.parametrize("alignment", [1, 8])
def test_groups_by_their_ends(kernel: KernelRecord, n: int, k: int, groups: int, alignment: int) -> None:
    ends = ends_of(counts_of(kernel.config["tile"][1], groups), alignment)
    m = int(ends[-1]) + 3  # rows behind the last group
    call = Call(problem_of(kernel, m, n, k, groups, row_alignment=alignment), {"group_ends": ends})
    right = call.expected()
    for tactic in TACTICS:
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
    call = Call(problem, {"group_of_row": index})
    right = call.expected()
    for tactic in TACTICS:
        call.run(kernel.name + tactic)
        call.check(right, f"{kernel.name}{tactic} {problem}")


def test_rows_that_count(kernel: KernelRecord) -> None:
    """Each group has a matrix of its own, of which the first rows count."""
    tile = kernel.config["tile"][1]
    counts, m = counts_of(tile, 8), 2 * tile + 5
    problem = problem_of(kernel, m, 264, 672, 8, grouping="rows_valid", row_factors=True)
    call = Call(problem, {"rows_valid": int32(*counts)})
    right = call.expected()
    for tactic in TACTICS:
        call.run(kernel.name + tactic)
        call.check(right, f"{kernel.name}{tactic} {problem}")


@pytest.mark.parametrize("which", [0, 57, 127])
def test_all_rows_of_one_group(kernel: KernelRecord, which: int) -> None:
    """One of 128 groups has all rows: the scheduler reads 32 groups at a time."""
    m = 2 * kernel.config["tile"][1] + 1
    ends = int32(*[0 if group < which else m for group in range(128)])
    call = Call(problem_of(kernel, m, 72, 160, 128), {"group_ends": ends})
    call.run(kernel.name)
    call.check(call.expected(), f"{kernel.name} {call.problem}")


def test_no_row_counts(kernel: KernelRecord) -> None:
    call = Call(problem_of(kernel, 40, 72, 160, 4, grouping="rows_valid"), {"rows_valid": int32(0, 0, 0, 0)})
    call.run(kernel.name)
    assert bool((call.wide == MARK).all())


def test_factors_alpha_and_bias(kernel: KernelRecord) -> None:
    tile = kernel.config["tile"][1]
    ends = ends_of(counts_of(tile, 12))
    problem = problem_of(kernel, int(ends[-1]), 328, 416, 12, bias=True, row_factors=True)
    call = Call(problem, {"group_ends": ends}, factors=True)
    right = call.expected(0.37)
    for tactic in ("", "@cluster=2x1"):
        call.run(kernel.name + tactic, alpha=0.37)
        call.check(right, f"{kernel.name}{tactic}")


def test_error_bound(kernel: KernelRecord) -> None:
    """What the tensor core cuts off stays within the stated bound, where it cuts most products."""
    counts = (19, 0, 24)
    problem = problem_of(kernel, sum(counts), 64, 1024, len(counts))
    call = Call(problem, {"group_ends": ends_of(list(counts))})
    generator = torch.Generator("cuda").manual_seed(6)
    exponents = torch.randint(-9, 9, (problem.m, problem.k), generator=generator, device="cuda")
    a, x = call.arguments["a"], call.arguments
    a.copy_((torch.exp2(exponents.float()) * a.float().sign()).to(a.dtype))
    call.run(kernel.name)
    right = call.expected()
    for group in (0, 2):
        own = call.groups == group
        packed = weight_layout.Packed(x["weight"][group], x["scale"][group])
        bound = rounding_bound(a[own], packed, problem.of_group)
        bound += torch.finfo(call.out.dtype).eps * right[own].abs()
        assert bool(((call.out[own].double() - right[own]).abs() <= bound).all())


def test_the_largest_scale(kernel: KernelRecord) -> None:
    """Sums that stay in the tensor core are the same to the bit, whatever power of two scales are relative
    to, while elements stay exact; where a scale is above it, there is no finite result."""
    if not kernel.config["fast_accum"]:
        pytest.skip("elements are relative to the largest scale of a block of k")
    ends = ends_of([3, kernel.config["tile"][1] + 1])
    call = Call(problem_of(kernel, int(ends[-1]), 136, 288, 2, bias=True), {"group_ends": ends}, factors=True)
    right = call.expected()
    for largest in (LARGEST_SCALE, 2.0**-4, 2.0**3):  # random scales are at most 2^-5
        call.arguments["largest_scale"] = largest
        call.run(kernel.name)
        call.check(right, f"{kernel.name} {largest}")
    call.arguments["largest_scale"] = 2.0**-9  # below all scales
    call.run(kernel.name)
    assert not bool(call.out.isfinite().any())


def test_a_graph_is_replayed_with_other_groups(kernel: KernelRecord) -> None:
    tile = kernel.config["tile"][1]
    counts = counts_of(tile, 8)
    ends = ends_of(counts)
    problem = problem_of(kernel, int(ends[-1]), 136, 288, 8)
    call = Call(problem, {"group_ends": ends})
    call.run(kernel.name)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tilewright.packed_fp8_grouped_gemm(**call.arguments, out=call.out, tactic=kernel.name)
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
    call = Call(problem_of(kernel, int(ends[-1]), 520, 1056, 8), {"group_ends": ends})
    for tactic in ("", "@cluster=2x1"):
        call.run(kernel.name + tactic)
        first, differ = call.out.clone(), torch.zeros((), dtype=torch.int64, device="cuda")
        for _ in range(200):
            tilewright.packed_fp8_grouped_gemm(**call.arguments, out=call.out, tactic=kernel.name + tactic)
            differ += (call.out != first).sum()
        assert int(differ) == 0, tactic


def test_rows_do_not_depend_on_other_rows(kernel: KernelRecord) -> None:
    """Bits of a row, in whatever group sizes: what batch-invariant mode rests on."""
    problem = problem_of(kernel, 130, 264, 1056, 3, grouping="row_index")
    index = torch.zeros(130, dtype=torch.int32, device="cuda")
    index[100:] = 2
    call = Call(problem, {"group_of_row": index})
    call.run(kernel.name)
    whole = call.out.clone()
    x = call.arguments
    for rows in (slice(0, 1), slice(3, 20), slice(90, 130)):
        part = {**x, "a": x["a"][rows], "group_of_row": index[rows].clone()}
        out = torch.empty_like(whole[rows])
        assert torch.equal(
            tilewright.packed_fp8_grouped_gemm(**part, out=out, tactic=kernel.name), whole[rows]
        )


def test_waits_for_the_kernel_before(kernel: KernelRecord) -> None:
    ends = int32(5, 5, 12, 17)
    problem = problem_of(kernel, 17, 200, 544, 4, bias=True, row_factors=True)
    call = Call(problem, {"group_ends": ends}, factors=True)
    right = call.expected()
    names_of_operands = ("a", "weight", "scale", "bias", "group_factors", "group_ends", "a_scale")
    tensors = {name: call.arguments[name] for name in names_of_operands if name in call.arguments}
    out = torch.full((17, 208), float("nan"), device="cuda", dtype=call.out.dtype)[:, :200]

    def run() -> None:
        tilewright.packed_fp8_grouped_gemm(**call.arguments, out=out, tactic=kernel.name)

    def compare(late: str) -> None:
        error = float((out.double() - right).norm() / right.norm())
        assert error < _ERRORS[problem.d], f"{kernel.name} {late}: {error}"

    check_waits(tensors, {"out": out}, run, compare)
