"""The comparison of the GPU's GEMM tests rejects what a wrong kernel would write: on the host, on products
that are made wrong."""

from __future__ import annotations

import math

import gemm_reference as reference
import pytest
import torch

from tilewright.errors import WrongResultError
from tilewright.families.gemm import measuring
from tilewright.families.gemm.problem import Problem

K = 7168
PLAIN = {"a": "bf16", "d": "bf16", "fast_accum": False, "activation": "none"}
FAST = {**PLAIN, "a": "e4m3", "fast_accum": True}
CONFIGS = [PLAIN, FAST, {**FAST, "d": "f32"}, {**PLAIN, "a": "tf32", "d": "f32"}, {**PLAIN, "d": "f16"}]


@pytest.fixture(scope="module")
def exact() -> torch.Tensor:
    a, b = (torch.randn(shape, generator=torch.Generator().manual_seed(1)) for shape in ((96, K), (K, 80)))
    return a.double() @ b.double()


def made(exact: torch.Tensor, config: dict[str, object], error: float = 0.0) -> torch.Tensor:
    """What a right kernel makes: rounded to D's type, its sums off by `error` of their norm."""
    noise = torch.randn(exact.shape, generator=torch.Generator().manual_seed(2)).double()
    value = exact + error * noise * exact.norm() / math.sqrt(exact.numel())
    return value.to(reference.DTYPES[str(config["d"])])


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_right_results_pass(exact: torch.Tensor, config: dict[str, object]) -> None:
    reference.compare(made(exact, config), exact, config, K, "right")


@pytest.mark.parametrize("d", ["bf16", "f32"])
@pytest.mark.parametrize(("k", "error"), [(7168, 1.9e-3), (16384, 3.2e-3)])
def test_what_fast_sums_lost_on_an_h200_passes(exact: torch.Tensor, k: int, error: float, d: str) -> None:
    config = {**FAST, "d": d}
    reference.compare(made(exact, config, error), exact, config, k, "measured")


@pytest.mark.parametrize("error", [8e-3, 2.9e-2])
@pytest.mark.parametrize("d", ["bf16", "f32"])
def test_more_than_twice_that_fails(exact: torch.Tensor, d: str, error: float) -> None:
    config = {**FAST, "d": d}
    with pytest.raises(AssertionError, match="error"):
        reference.compare(made(exact, config, error), exact, config, K, "lossy")


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_wrong_results_fail(exact: torch.Tensor, config: dict[str, object]) -> None:
    right = made(exact, config)
    rms = float(exact.norm()) / math.sqrt(exact.numel())

    def with_one(value: float) -> torch.Tensor:
        changed = right.clone()
        changed[40, 7] = value
        return changed

    wrong = {
        "nothing": torch.zeros_like(right),
        "alpha 1 % off": made(1.01 * exact, config),
        "alpha of the other sign": made(-exact, config),
        "one element off": with_one(float(right[40, 7]) + 0.5 * rms),
        "one element NaN": with_one(math.nan),
        "one element infinite": with_one(math.inf),
        "two rows exchanged": right[[1, 0, *range(2, 96)]],
        "the last row of another": torch.cat([right[:-1], right[:1]]),
        "a row not written": torch.cat([right[:-1], torch.full_like(right[:1], math.nan)]),
        "a bias too much": made(exact + 0.1 * rms, config),
    }
    assert [what for what, actual in wrong.items() if passes(actual, exact, config)] == []


def passes(found: torch.Tensor, exact: torch.Tensor, config: dict[str, object]) -> bool:
    try:
        reference.compare(found, exact, config, K, "")
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize(("error", "right"), [(3.2e-3, True), (1.5e-2, False), (2.9e-2, False)])
def test_what_tuning_takes_for_right(error: float, right: bool) -> None:
    """FP8 with fast accumulation may be as far off as in the tests, and D is rounded."""
    m, n, k = 64, 48, 16384
    generator = torch.Generator().manual_seed(3)
    a, b = (torch.randn(shape, generator=generator).to(torch.float8_e4m3fn) for shape in ((m, k), (k, n)))
    exact = a.double() @ b.double()
    noise = torch.randn(m, n, generator=generator).double()
    actual = (exact + error * noise * exact.norm() / math.sqrt(m * n)).bfloat16()
    problem = Problem(m, n, k, a="e4m3", b="e4m3", d="bf16", fast_accum=True)
    if right:
        assert measuring.operands(problem, a=a, b=b, out=actual).check() == pytest.approx(error, rel=0.3)
        return
    with pytest.raises(WrongResultError):
        measuring.operands(problem, a=a, b=b, out=actual).check()


def test_integers_are_compared_exactly() -> None:
    expected = torch.arange(-6000, 6000, dtype=torch.int32).view(100, 120)
    config = {**PLAIN, "a": "s8", "d": "s32"}
    reference.compare(expected, expected.double(), config, K, "right")
    changed = expected.clone()
    changed[3, 5] += 1
    with pytest.raises(AssertionError, match="integers differ"):
        reference.compare(changed, expected.double(), config, K, "one off")


@pytest.mark.parametrize("d", ["bf16", "f16", "f32", "s32"])
def test_what_is_written_outside_of_d_is_seen(d: str) -> None:
    out = reference.Output.make((5, 12), d)
    out.view.fill_(1)
    out.check_borders()
    assert bool((out.view == 1).all())
    for row, column in ((-1, 0), (5, 0), (0, -1), (2, 12)):
        broken = reference.Output.make((5, 12), d)
        wide = broken.view.as_strided(
            (1,), (1,), broken.view.storage_offset() + row * broken.view.stride(0) + column
        )
        wide.fill_(3)
        with pytest.raises(AssertionError, match="outside of D"):
            broken.check_borders()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int32])
def test_a_vector_lies_within_poison(dtype: torch.dtype) -> None:
    """A bias: what is beside it, on either side, is no number that a sum could hide."""
    values = torch.arange(13).to(dtype)
    inside = reference.embed(values)
    assert torch.equal(inside, values)
    assert inside.data_ptr() % 16 == 0
    assert inside.stride() == (1,)
    for beside in (-1, len(values)):
        other = inside.as_strided((1,), (1,), inside.storage_offset() + beside)
        assert torch.equal(
            other.isnan() if dtype.is_floating_point else other == reference.INTEGER_POISON,
            torch.ones(1).bool(),
        )
