"""Calls that find a cached launcher: what they compute, and what they still refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import tilewright
from tilewright import context as contexts
from tilewright.context import Context
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.libraries.launcher_cache import CachedLaunchers
from tilewright.libraries.library import MOST_OPERANDS, UNPLANNED, load

WARM = 3  # calls: the first makes a plan, the second its launcher known, the third finds it


class Keyless(contexts.Plans):
    """Plans of which none is found by its key."""

    def get(self, key: Any, default: Any = None) -> Any:
        raise AssertionError(f"a key is looked up: {key}")


def operands(m: int, n: int, k: int, dtype: torch.dtype = torch.bfloat16) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(m * n + k)
    a, b = torch.randn(m, k, generator=generator), torch.randn(n, k, generator=generator)
    return a.to(dtype), b.to(dtype).t(), torch.full((m, n), float("nan")).to(dtype)


def warm(a: torch.Tensor, b: torch.Tensor, calls: int = WARM, **options: Any) -> None:
    for _ in range(calls):
        tilewright.gemm(a, b, **options)


def keyless(host: Context) -> None:
    """From here on whoever looks up a key fails."""
    launchers, host.plans = host.plans.launchers, Keyless()
    host.plans.launchers = launchers


@pytest.mark.parametrize("given", [True, False])
def test_a_warm_call_makes_no_key(host: Context, given: bool) -> None:
    problems = [operands(16, n, 32) for n in (8, 24, 40)]
    for a, b, out in problems:
        warm(a, b, out=out if given else None)
    keyless(host)
    for a, b, out in problems:
        out.fill_(float("nan"))
        made = tilewright.gemm(a, b, out=out if given else None)
        assert (made is out) == given
        torch.testing.assert_close(made, (a.double() @ b.double()).bfloat16())


def test_the_same_extents_of_other_types_and_layouts(host: Context) -> None:
    """None of them is carried out by another's launcher."""
    for _ in range(WARM):
        for dtype in (torch.bfloat16, torch.float32):
            a, b, out = operands(16, 24, 32, dtype)
            wide = torch.full((16, 48), float("nan")).to(dtype)[:, :24]
            expected = (a.double() @ b.double()).to(dtype)
            for into in (None, out, wide):
                made = tilewright.gemm(a, b, out=into)
                torch.testing.assert_close(made, expected, rtol=2e-2, atol=2e-2)
                assert made.dtype == dtype
            assert wide._base[:, 24:].isnan().all()


def test_more_layouts_than_are_tried_in_turn(host: Context) -> None:
    problems = [operands(16, 8 * n, 32) for n in range(1, CachedLaunchers.MOST + 4)]
    for _ in range(WARM):
        for a, b, out in problems:
            tilewright.gemm(a, b, out=out)
            torch.testing.assert_close(out, (a.double() @ b.double()).bfloat16())
    (cached,) = host.plans.launchers.values()
    assert len(cached.launchers) == CachedLaunchers.MOST


def test_what_a_warm_call_refuses(host: Context) -> None:
    a, b, out = operands(16, 24, 32)
    bias, c = torch.ones(24).bfloat16(), torch.ones(16, 24).bfloat16()
    warm(a, b, out=out)
    warm(a, b, out=out, bias=bias)
    warm(a, b, out=out, c=c, beta=1.0)
    wrong: list[tuple[str, type[ArgumentError], dict[str, Any]]] = [
        ("bias", ArgumentError, {"bias": bias[None]}),
        ("bias", ArgumentTypeError, {"bias": bias.half().view(torch.int16)}),
        ("c", ArgumentError, {"beta": 1.0}),
        ("c", ArgumentError, {"c": c[:8], "beta": 1.0}),
        ("out", ArgumentError, {"out": out.new_empty(24, 16)}),
        ("out", ArgumentError, {"out": a[:, :24]}),
        ("fast_accum", ArgumentTypeError, {"fast_accum": 2}),
        ("activation", ArgumentError, {"activation": "tanh"}),
    ]
    for name, error, options in wrong:
        with pytest.raises(error) as caught:
            tilewright.gemm(a, b, **{"out": out} | options)
        assert caught.value.argument == name
    for which in (0, 1, 2):
        wants = [tensor.detach().clone(memory_format=torch.preserve_format) for tensor in (a, b, out)]
        wants[which].requires_grad_(True)
        with pytest.raises(ArgumentError, match="requires a gradient"):
            tilewright.gemm(wants[0], wants[1], out=wants[2])
        with torch.no_grad():
            tilewright.gemm(wants[0], wants[1], out=wants[2])


def test_numbers_are_checked_where_a_launcher_is_cached(host: Context) -> None:
    """A launcher compares no numbers; int8 operands take whole factors alone."""
    whole = torch.arange(-128, 128, dtype=torch.int8).view(8, 32)
    out = torch.empty(8, 8, dtype=torch.int32)
    floats = operands(8, 8, 32)
    for _ in range(WARM):  # one key: with `out` it holds no type
        tilewright.gemm(whole, whole.t(), out=out, alpha=2)
        tilewright.gemm(*floats[:2], out=floats[2], alpha=0.5)
    (cached,) = host.plans.launchers.values()
    assert len(cached.launchers) == 2
    for wrong in (0.5, 2.0**31, float("nan")):
        with pytest.raises(ArgumentError, match="alpha: expected an integer"):
            tilewright.gemm(whole, whole.t(), out=out, alpha=wrong)
    floats[2].fill_(float("nan"))
    tilewright.gemm(*floats[:2], out=floats[2], alpha=0.5)
    torch.testing.assert_close(floats[2], (0.5 * (floats[0].double() @ floats[1].double())).bfloat16())
    keyless(host)
    tilewright.gemm(whole, whole.t(), out=out, alpha=-3)
    assert torch.equal(out.double(), -3 * (whole.double() @ whole.t().double()))


def test_what_has_no_memory_goes_through_torch(host: Context) -> None:
    a, b, _ = operands(16, 24, 32)
    warm(a, b)
    stacked = torch.stack([a, 2 * a])
    made = torch.vmap(lambda one: tilewright.gemm(one, b))(stacked)
    torch.testing.assert_close(made, (stacked.double() @ b.double()).bfloat16())
    assert tilewright.gemm(a.to("meta"), b.to("meta")).is_meta


def test_launchers_that_are_not_used_give_way(host: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "MAX_PLANS", 5)
    used = operands(16, 24, 32)
    warm(*used[:2], out=used[2])
    ((key, cached),) = host.plans.launchers.items()
    for m in range(1, 20):
        tilewright.gemm(*used[:2], out=used[2])
        warm(*operands(m, 8, 40)[:2], calls=2)
    assert host.plans.launchers[key] is cached, "it is in use"
    for m in range(1, 20):
        warm(*operands(m, 8, 48)[:2])
    assert cached not in host.plans.launchers.values()
    assert len(host.plans.launchers) == len(host.plans) == 5
    used[2].fill_(float("nan"))
    warm(*used[:2], out=used[2])
    torch.testing.assert_close(used[2], (used[0].double() @ used[1].double()).bfloat16())
    host.plans.clear()
    assert not host.plans.launchers


def test_launchers_of_einsums_that_are_used_stay(host: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "MAX_PLANS", 5)
    a, b, out = operands(16, 24, 32)
    tilewright.einsum("mk,kn->mn", a, b, out=out)
    (cached,) = [entry for key, entry in host.plans.launchers.items() if key[0] == "einsum"]
    for m in range(1, 20):
        tilewright.einsum("mk,kn->mn", a, b, out=out)
        other = operands(m, 8, 40)
        tilewright.einsum("mk,kn->mn", other[0], other[1], out=other[2])
        assert cached in host.plans.launchers.values(), "it is in use"


def numbered(status: int, seen: list[int], number: int) -> Any:
    def launch(*call: Any) -> int:
        seen.append(number)
        return status

    return launch


def test_one_launcher_too_many_replaces_none() -> None:
    seen: list[int] = []
    cached = CachedLaunchers()
    for number in range(CachedLaunchers.MOST + 2):
        cached.add(numbered(UNPLANNED, seen, number))
    assert cached.layouts_seen == CachedLaunchers.MOST + 2
    assert cached.launch() == UNPLANNED
    assert seen == list(range(CachedLaunchers.MOST))


@pytest.mark.parametrize(
    ("statuses", "tried", "answer"),
    [
        ((UNPLANNED, UNPLANNED - 3, UNPLANNED - MOST_OPERANDS + 1, 0, 0), 4, 0),
        ((UNPLANNED - 1, UNPLANNED - 2), 2, UNPLANNED - 2),
        ((UNPLANNED, UNPLANNED + 1, 0), 2, UNPLANNED + 1),  # MISALIGNED, of some operand
        ((UNPLANNED, UNPLANNED - MOST_OPERANDS, 0), 2, UNPLANNED - MOST_OPERANDS),  # OVERFLOW or ALIASED
        ((700, 0), 1, 700),  # CUDA's
        ((0, 0), 1, 0),
    ],
)
@pytest.mark.parametrize("by", ["Python", "C++"])
def test_launchers_are_tried_until_one_takes_the_operands(
    statuses: tuple[int, ...], tried: int, answer: int, by: str, host_library: Path
) -> None:
    seen: list[int] = []
    cached = CachedLaunchers()
    for number, status in enumerate(statuses):
        cached.add(numbered(status, seen, number), load(host_library) if by == "C++" else None)
    assert cached.launch("operands") == answer
    assert seen == list(range(tried))
