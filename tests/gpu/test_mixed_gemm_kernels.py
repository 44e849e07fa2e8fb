"""Every generated `mixed_gemm` kernel that this GPU runs, against float64 of the decoded weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from generated_kernels import fixture, names, registry
from late_writes import check_waits
from packed_codes import HALVES, every_code_and_scale, gated_codes

import tilewright
from tilewright import weight_layout
from tilewright.declarations.table import KernelRecord
from tilewright.families.gemm.op import ACTIVATED
from tilewright.families.mixed_gemm.measuring import random_weight
from tilewright.families.mixed_gemm.problem import FORMATS, GATED_MULTIPLE, SILU_MUL, Problem
from tilewright.families.mixed_gemm.reference import decoded, exact
from tilewright.formats.dtypes import dtype_of

# n, k, and rows as (tiles, more): whole and partial tiles, an odd number of pieces, one piece, many.
SHAPES = [(8, 32, 0, 1), (72, 160, 1, -3), (320, 480, 2, 1), (1000, 2208, 0, 1), (1288, 4096, 1, 0)]
TACTICS = ["", "@splits=2", "@splits=3", "@splits=8", "@cluster=2x1", "@cluster=4x1", "@cluster=2x1,splits=4"]
# k with which each warp of a stream kernel uses its stages again, and rows, up to its own.
STREAM_SHAPES = [(8, 32, 1), (72, 160, 3), (320, 480, 32), (1000, 2208, 13), (136, 20000, 31)]
# n of many tiles, so that a thread block of a balanced kernel has whole tiles and parts of two, and k with
# which many thread blocks have parts of one tile.
BALANCED_SHAPES = [
    (8, 32, 0, 1), (20008, 1056, 1, 5), (320, 480, 2, 1), (1000, 20000, 1, -3), (28672, 544, 1, 0),
]  # fmt: skip
# Shares of the norm by which D may be wrong: it is rounded, and sums are of F32.
_ERRORS = {torch.bfloat16: 4e-3, torch.float16: 6e-4, torch.float32: 2e-5}

kernel = fixture("mixed_gemm", "tilewright build sm90_mixed_gemm")


def test_every_kernel_is_built() -> None:
    missing = [name for name in names("mixed_gemm") if not registry().is_built(registry().record(name))]
    assert not missing, f"{len(missing)} kernels are not built: run `tilewright build sm90_mixed_gemm`"


def problem_of(record: KernelRecord, m: int, n: int, k: int, **options: Any) -> Problem:
    """A problem of the kernel; a gated one has a few rows of W more where n is no multiple of 16."""
    config = record.config
    if gated(record):
        n, options = -(-n // GATED_MULTIPLE) * GATED_MULTIPLE, options | {"activation": SILU_MUL}
    a, d = config["a"], config["a"] if config["d"] == "same" else config["d"]
    return Problem(m, n, k, a, d, config["weight_format"], **options)


def operands(problem: Problem, seed: int = 0) -> dict[str, Any]:
    """Rows of a wider tensor, among NaN, and a random weight."""
    generator = torch.Generator("cuda").manual_seed(seed)
    dtype = dtype_of(problem.a)
    wide = torch.full((problem.m + 2, problem.k + 16), float("nan"), device="cuda", dtype=dtype)
    a = wide[1:-1, 8:-8]
    a.copy_(torch.randn(a.shape, generator=generator, device="cuda"))
    packed = random_weight(problem, generator)
    call = {"a": a, "weight": packed.weight, "scale": packed.scale, "n": problem.n}
    call["weight_format"], call["out_dtype"] = problem.weight_format, dtype_of(problem.d)
    call["activation"] = problem.activation
    if problem.bias:
        call["bias"] = torch.randn(problem.n, generator=generator, device="cuda").to(call["out_dtype"])
    return call


def expected(
    kernel: KernelRecord, call: dict[str, Any], problem: Problem, alpha: float = 1.0
) -> torch.Tensor:
    weight_of = exact if kernel.config["mainloop"] == "stream" else decoded
    weight = weight_of(weight_layout.Packed(call["weight"], call["scale"]), problem).double()
    product = alpha * (call["a"].double() @ weight.T)
    return ACTIVATED[problem.activation](product + call["bias"].double() if problem.bias else product)


def compare(actual: torch.Tensor, right: torch.Tensor, what: str) -> None:
    """The norm of the error, and each element."""
    difference = actual.double() - right
    error = float(difference.norm() / right.norm())
    assert error < _ERRORS[actual.dtype], f"{what}: {error}"
    rms = float(right.square().mean().sqrt())
    excess = difference.abs() - torch.finfo(actual.dtype).eps * right.abs() - 2e-3 * rms
    assert bool((excess <= 0).all()), (
        f"{what}: an element is off by {float(difference.abs().max())}, of {rms}"
    )


def rows_of(record: KernelRecord, m: int) -> int:
    """m, or the most rows that a stream kernel computes."""
    return min(m, record.config["tile"][1]) if record.config["mainloop"] == "stream" else m


def gated(record: KernelRecord) -> bool:
    """Whether the kernel multiplies gated weights."""
    return bool(record.config["activation"] == SILU_MUL)


def balanced(record: KernelRecord) -> bool:
    """Whether the kernel has no activation, no splits of k, and a D that TMA stores."""
    return record.config["mainloop"] == "balanced"


def legal(record: KernelRecord, tactic: str, k: int) -> bool:
    """Whether the kernel has clusters and splits, and each range of k a tile."""
    if balanced(record):
        return tactic in ("", "@cluster=2x1")
    if "cluster" in tactic and record.config["mainloop"] == "stream":
        return False
    splits = int(tactic.partition("splits=")[2] or 1)
    return splits <= -(-k // 128) * (128 // record.config["tile"][2]) and splits <= -(
        -k // record.config["tile"][2]
    )


def with_splits(record: KernelRecord, splits: int) -> tuple[str, str]:
    """The plain tactic, and one that divides k; of a kernel that does so anyway, pairs of thread blocks."""
    return "", "@cluster=2x1" if balanced(record) else f"@splits={splits}"


@pytest.mark.parametrize("index", range(len(SHAPES)))
def test_every_tactic(kernel: KernelRecord, index: int) -> None:
    if kernel.config["mainloop"] == "stream":
        n, k, rows = STREAM_SHAPES[index]
        m = rows_of(kernel, rows)
    else:
        n, k, tiles, more = (BALANCED_SHAPES if balanced(kernel) else SHAPES)[index]
        m = max(1, tiles * kernel.config["tile"][1] + more)
    problem = problem_of(kernel, m, n, k)
    call = operands(problem)
    right = expected(kernel, call, problem)
    for place, tactic in enumerate(tactic for tactic in TACTICS if legal(kernel, tactic, k)):
        room = 8 if place % 2 == 0 or balanced(kernel) else 3  # TMA stores D, or threads do
        columns = problem.d_columns
        wide = torch.full((m + 2, columns + room), float("nan"), device="cuda", dtype=call["out_dtype"])
        out = wide[1:-1, :columns]
        tilewright.packed_gemm(**call, out=out, tactic=kernel.name + tactic)
        compare(out, right, f"{kernel.name}{tactic} {problem}")
        out.fill_(float("nan"))
        assert bool(wide.isnan().all()), f"{kernel.name}{tactic} {problem}: wrote beyond D"


def test_a_balanced_kernel_refuses_what_it_cannot_store(kernel: KernelRecord) -> None:
    if not balanced(kernel):
        return
    problem = problem_of(kernel, 5, 72, 160)
    call, columns = operands(problem), problem.d_columns
    unaligned = torch.empty(5, columns + 3, device="cuda", dtype=call["out_dtype"])[:, :columns]
    with pytest.raises(tilewright.TilewrightError):
        tilewright.packed_gemm(**call, out=unaligned, tactic=kernel.name)
    reason = f"nothing but {SILU_MUL}" if problem.gated else "no activation"
    with pytest.raises(tilewright.TilewrightError, match=reason):
        tilewright.packed_gemm(**call | {"activation": "silu"}, tactic=kernel.name)


@pytest.mark.parametrize("activation", ["none", "relu", "gelu", "silu", SILU_MUL])
def test_bias_alpha_and_activation(kernel: KernelRecord, activation: str) -> None:
    plain = "none" if balanced(kernel) else activation
    if gated(kernel) != (activation == SILU_MUL) or (not gated(kernel) and activation != plain):
        return
    problem = problem_of(
        kernel, rows_of(kernel, kernel.config["tile"][1] + 3), 328, 416, bias=True, activation=activation
    )
    call = operands(problem, 1)
    for tactic in with_splits(kernel, 3):
        shape = problem.m, problem.d_columns
        out = torch.full(shape, float("nan"), device="cuda", dtype=call["out_dtype"])
        tilewright.packed_gemm(**call, alpha=0.37, out=out, tactic=kernel.name + tactic)
        compare(out, expected(kernel, call, problem, 0.37), f"{kernel.name}{tactic} {activation}")


def test_every_code_and_scale(kernel: KernelRecord) -> None:
    """An identity reads the weights: to the bit; NaN where a scale is NaN."""
    if gated(kernel):
        return
    format, group = FORMATS[kernel.config["weight_format"]]
    parts = every_code_and_scale(kernel)
    n, k = parts["codes"].shape
    packed = weight_layout.pack(**parts, format=format, group=group)
    problem = problem_of(kernel, k, n, k)
    # A stream kernel multiplies sums by scales in F32, which D rounds, unless it is of F32.
    is_exact = kernel.config["mainloop"] == "stream" and problem.d == "f32"
    right = (exact if is_exact else decoded)(packed, problem).to(dtype_of(problem.d))
    actual = times_identity(kernel, packed, problem)
    finite, missing = torch.isfinite(right).all(1), right.isnan().any(1)
    assert int(finite.sum()) > n // 2
    assert torch.equal(actual[finite], right[finite])
    assert bool(actual[missing].isnan().all())


@pytest.mark.parametrize("half", HALVES)
def test_every_code_and_scale_of_a_gated_weight(kernel: KernelRecord, half: str) -> None:
    """Every row of up where gate is 32, whose SiLU is 32: to the bit. Every row of gate where up is 1."""
    if not gated(kernel):
        return
    codes = gated_codes(kernel, half)
    problem = problem_of(kernel, codes.k, 2 * codes.n, codes.k, bias=True)
    actual = times_identity(kernel, codes.packed, problem, codes.bias)
    codes.check(exact if kernel.config["mainloop"] == "stream" else decoded, problem, actual)


def times_identity(
    kernel: KernelRecord, packed: weight_layout.Packed, problem: Problem, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """D of an identity, transposed."""
    identity = torch.eye(problem.k, device="cuda", dtype=dtype_of(problem.a))
    call = {"n": problem.n, "weight_format": problem.weight_format, "out_dtype": dtype_of(problem.d)}
    call |= {"activation": problem.activation, "bias": bias, "tactic": kernel.name}
    parts = identity.split(rows_of(kernel, problem.k))
    return torch.cat([tilewright.packed_gemm(part, packed.weight, packed.scale, **call) for part in parts]).T


def test_equal_runs(kernel: KernelRecord) -> None:
    """The order of sums is fixed."""
    problem = problem_of(kernel, rows_of(kernel, 2 * kernel.config["tile"][1] + 1), 1032, 2080)
    call = operands(problem)
    for tactic in with_splits(kernel, 4):
        first = tilewright.packed_gemm(**call, tactic=kernel.name + tactic)
        out, differ = torch.empty_like(first), torch.zeros((), dtype=torch.int64, device="cuda")
        for _ in range(300):
            tilewright.packed_gemm(**call, out=out, tactic=kernel.name + tactic)
            differ += (out != first).sum()
        assert int(differ) == 0, tactic


def test_rows_do_not_depend_on_other_rows(kernel: KernelRecord) -> None:
    """Bits of unsplit tactics: what batch-invariant mode rests on. It has no balanced kernels: their rows are
    right, and may have other bits."""
    problem = problem_of(kernel, rows_of(kernel, 130), 264, 1056)
    call = operands(problem)
    whole = tilewright.packed_gemm(**call, tactic=kernel.name)
    for rows in (slice(0, 1), slice(3, 20), slice(64, 130)):
        if rows.start >= problem.m:
            continue
        part = tilewright.packed_gemm(**call | {"a": call["a"][rows]}, tactic=kernel.name)
        if balanced(kernel):
            compare(part, expected(kernel, call, problem)[rows], f"{kernel.name} {rows}")
        else:
            assert torch.equal(part, whole[rows])


def test_waits_for_the_kernel_before(kernel: KernelRecord) -> None:
    problem = problem_of(kernel, rows_of(kernel, 17), 200, 544, bias=True)
    call = operands(problem)
    right = expected(kernel, call, problem)
    for tactic in with_splits(kernel, 2):
        shape, columns = (problem.m, problem.d_columns + 8), problem.d_columns
        out = torch.full(shape, float("nan"), device="cuda", dtype=call["out_dtype"])[:, :columns]
        tensors = {name: call[name] for name in ("a", "weight", "scale", "bias")}

        def run(out: torch.Tensor = out, tactic: str = tactic) -> None:
            tilewright.packed_gemm(**call, out=out, tactic=kernel.name + tactic)

        check_waits(
            tensors, {"out": out}, run, lambda late, out=out: compare(out, right, f"{kernel.name} {late}")
        )
