"""Products with a gated activation: silu_mul of a merged weight, as the op and selection see them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gemm_operands import matrix

import tilewright
from tilewright.architectures.device import B200, H200
from tilewright.context import Context
from tilewright.declarations.arguments import packed, struct
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError, ArgumentTypeError, NoKernelError
from tilewright.families.gemm import fixed_splits
from tilewright.families.gemm.cost_lean import Kernel
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.interface import INTERFACE
from tilewright.families.gemm.problem import Problem
from tilewright.families.gemm.vocabulary import WORDS
from tilewright.libraries.registry import Registry

A, B, BIAS = matrix(16, 32), matrix(96, 32, seed=1).t(), matrix(96, seed=2)
GATED = {"activation": "silu_mul"}


def silu_mul(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.nn.functional.silu(x[..., :half]) * x[..., half:]


def test_the_result_has_half_of_the_columns(host: Context) -> None:
    expected = silu_mul(0.3 * (A.double() @ B.double()) + BIAS.double()).bfloat16()
    actual = tilewright.gemm(A, B, alpha=0.3, bias=BIAS, **GATED)
    assert actual.shape == (16, 48)
    torch.testing.assert_close(actual, expected)
    out = torch.full((16, 64), float("nan"), dtype=torch.bfloat16)[:, :48]
    assert tilewright.gemm(A, B, alpha=0.3, bias=BIAS, out=out, **GATED) is out
    assert torch.equal(out, actual)


def test_batches_and_empty_results(host: Context) -> None:
    a = matrix(3, 16, 32, seed=4)
    expected = silu_mul(a.double() @ B.double()).bfloat16()
    torch.testing.assert_close(tilewright.gemm(a, B, **GATED), expected)
    assert tilewright.gemm(A[:0], B, **GATED).shape == (0, 48)
    assert tilewright.gemm(A, B[:, :0], **GATED).shape == (16, 0)


def test_operands_in_which_k_is_not_contiguous_are_copied(host: Context) -> None:
    row_major = B.contiguous()
    torch.testing.assert_close(tilewright.gemm(A, row_major, **GATED), tilewright.gemm(A, B, **GATED))


@pytest.mark.parametrize("options", [{"alpha": 0.0}, {}])
def test_without_a_product_the_bias_is_gated(host: Context, options: dict[str, Any]) -> None:
    a, b = (A, B) if options else (A[:, :0], B[:0])
    out = torch.full((16, 48), float("nan"), dtype=torch.bfloat16)
    tilewright.gemm(a, b, out=out, bias=BIAS, **options, **GATED)
    torch.testing.assert_close(out, silu_mul(BIAS.double()).bfloat16().expand(16, 48))
    assert tilewright.gemm(a, b, **options, **GATED).eq(0).all()


def test_a_plan_makes_results_of_half_the_columns(host: Context) -> None:
    plan = tilewright.plan(tilewright.gemm, A, B, bias=BIAS, **GATED)
    assert torch.equal(plan(A, B, bias=BIAS), tilewright.gemm(A, B, bias=BIAS, **GATED))


WRONG = [
    ("c", ArgumentError, "not supported with activation silu_mul", {"c": matrix(16, 48)}),
    ("amax", ArgumentError, "expected a result of FP8", {"amax": torch.zeros(1)}),
    ("out_dtype", ArgumentTypeError, "float32; expected bfloat16, float16", {"out_dtype": torch.float32}),
    ("out", ArgumentError, r"\[16, 96\]; expected \[16, 48\]", {"out": matrix(16, 96)}),
    ("bias", ArgumentError, r"\[48\]; expected \[96\]", {"bias": matrix(48)}),
    ("b", ArgumentError, "n is 72; expected a multiple of 16", {"b": matrix(72, 32).t()}),
]


@pytest.mark.parametrize(("name", "error", "text", "options"), WRONG)
def test_what_is_not_supported_is_refused(
    host: Context, name: str, error: type[ArgumentError], text: str, options: dict[str, Any]
) -> None:
    with pytest.raises(error, match=text) as raised:
        tilewright.gemm(**({"a": A, "b": B} | GATED | options))
    assert str(raised.value).startswith(f"{name}: ")


def test_results_of_fp8_are_refused(host: Context) -> None:
    a, b = A.to(torch.float8_e4m3fn), B.t().to(torch.float8_e4m3fn).t()
    with pytest.raises(ArgumentError, match="scale_result: not supported with activation silu_mul"):
        tilewright.gemm(a, b, out_dtype=torch.float8_e4m3fn, scale_result=torch.ones(1), **GATED)
    with pytest.raises(ArgumentTypeError, match=r"out_dtype: it is torch\.float8_e4m3fn; expected"):
        tilewright.gemm(a, b, out_dtype=torch.float8_e4m3fn, **GATED)


def test_fake_results_have_half_of_the_columns(host: Context) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: PLC0415

    with FakeTensorMode() as mode:
        a, b = mode.from_tensor(A), mode.from_tensor(B)
        assert tilewright.gemm(a, b, **GATED).shape == (16, 48)


def test_words_of_a_problem() -> None:
    problem = Problem(8, 96, 64, **GATED)
    assert (problem.n, problem.d_columns, Problem(8, 96, 64).d_columns) == (96, 48, 96)
    assert problem.bytes == 2 * (8 * 64 + 96 * 64 + 8 * 48)
    assert problem.flops == Problem(8, 96, 64).flops
    n = next(extent for extent in WORDS.extents if extent.name == "n")
    assert n.multiple({"activation": "silu_mul"}) == 16
    assert n.multiple({"activation": "silu"}) == 1


def test_the_kernel_gets_the_activation_of_the_gate_and_ds_own_strides() -> None:
    problem = Problem(8, 96, 64, **GATED)
    arguments = struct(INTERFACE).from_buffer_copy(packed(INTERFACE, problem, Tactic("k"), 132))
    assert (arguments.n, arguments.ld_d, arguments.activation) == (96, 48, 3)


def selected(registry: Registry, device: Any, problem: Problem) -> list[Any]:
    return FAMILY.fitting_kept(registry, registry.route("gemm", device), problem)


def test_gated_kernels_and_no_others_compute_gated_products() -> None:
    registry = Registry()
    gated = selected(registry, H200, Problem(48, 9728, 2560, **GATED))
    assert len(gated) > 50
    assert {record.config["activation"] for record in gated} == {"silu_mul"}
    for activation in ("none", "silu"):
        others = selected(registry, H200, Problem(48, 9728, 2560, activation=activation))
        assert others
        assert all(record.config["activation"] != "silu_mul" for record in others)
    assert not selected(registry, H200, Problem(48, 9720, 2560, **GATED))
    assert not selected(registry, H200, Problem(48, 9728, 2560, c=True, **GATED))
    for types in ({"a": "f16", "b": "f16", "d": "f16"}, {"a": "e4m3", "b": "e4m3", "fast_accum": True}):
        assert selected(registry, H200, Problem(48, 9728, 2560, **types, **GATED))


def test_no_tactic_adds_ranges_of_k_in_memory() -> None:
    registry = Registry()
    problem, few = Problem(48, 512, 16384, **GATED), Problem(48, 512, 16384)
    for batch_invariant in (False, True):
        tactics = FAMILY.weigh(
            selected(registry, H200, problem), problem, H200, batch_invariant=batch_invariant
        )
        assert tactics
        assert all(candidate.tactic.decomposition == "heuristic" for candidate in tactics)
    assert fixed_splits.splits_of(problem) == 4
    assert any(
        candidate.tactic.decomposition == "split_k"
        for candidate in FAMILY.weigh(selected(registry, H200, few), few, H200)
    )
    record = selected(registry, H200, problem)[0]
    tactic = Tactic(record.name, splits=2, decomposition="split_k")
    assert "no second kernel" in str(FAMILY.misfit_tactic(tactic, record, problem))


def test_the_model_counts_the_bytes_of_half_a_result() -> None:
    record = next(r for r in Registry().kernels("gemm") if r.config["activation"] == "silu_mul")
    gated, plain = (Kernel(record, Problem(512, 9744, 64, **fields), H200) for fields in (GATED, {}))
    assert gated.problem.bytes == plain.problem.bytes - 512 * 9744
    assert gated.straddling_d > plain.straddling_d  # rows of 9,744 and 19,488 bytes
    assert gated.epilogue == plain.epilogue


def test_where_no_kernel_has_it_the_error_says_what_there_is() -> None:
    context = Context(Registry(), described=B200)
    with pytest.raises(NoKernelError, match="silu_mul is an epilogue of lean kernels for sm_90a") as raised:
        context.select(FAMILY, Problem(48, 9728, 2560, **GATED), B200)
    assert "apply it to the result" in str(raised.value)
    with pytest.raises(NoKernelError) as raised:
        context.select(FAMILY, Problem(48, 9728, 2560, d="s32"), B200)
    assert "epilogue of lean" not in str(raised.value)
