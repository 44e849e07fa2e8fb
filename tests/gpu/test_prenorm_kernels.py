"""Every generated `hc_prenorm` kernel that this GPU runs, against float64 references."""

from __future__ import annotations

from typing import Any

import prenorm_reference
import pytest
import torch
from generated_kernels import fixture, names, registry
from late_writes import check_waits

import tilewright
from tilewright.declarations.table import KernelRecord
from tilewright.families.hc_prenorm.reference import reference

# Rows, k: one tile that is not full, one block, a last block that is not whole, several rounds of tiles.
SHAPES = [(1, 8), (13, 1000), (137, 7168), (64, 64), (4096, 1064), (300, 28672)]
FORMS: list[dict[str, Any]] = [{}, {"splits": 1}, {"splits": 3}, {"splits": 16}, {"normalize": True}]

kernel = fixture("hc_prenorm", "tilewright build hc_prenorm")


def test_every_kernel_is_built() -> None:
    missing = [name for name in names("hc_prenorm") if not registry().is_built(registry().record(name))]
    assert not missing, f"{len(missing)} kernels are not built: run `tilewright build hc_prenorm`"


def operands(m: int, n: int, k: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of wider tensors, among NaN."""
    generator = torch.Generator("cuda").manual_seed(seed)
    a = torch.full((m + 2, k + 16), float("nan"), device="cuda", dtype=torch.bfloat16)[1:-1, 8:-8]
    b = torch.full((n + 2, k + 8), float("nan"), device="cuda")[1:-1, 4:-4]
    a.copy_(torch.randn((m, k), generator=generator, device="cuda"))
    b.copy_(torch.randn((n, k), generator=generator, device="cuda"))
    return a, b


def results(m: int, n: int, splits: int | None) -> dict[str, torch.Tensor]:
    """Poisoned ones, in wider tensors."""
    shape = (m,) if splits is None else (splits, m)
    wide = torch.full((*shape, n + 8), float("nan"), device="cuda")
    return {"out": wide[..., :n], "squares": torch.full(shape, float("nan"), device="cuda")}


def check(
    tactic: str, a: torch.Tensor, b: torch.Tensor, form: dict[str, Any], wanted: tuple[torch.Tensor, ...]
) -> None:
    made = results(a.shape[0], b.shape[0], form.get("splits"))
    room = made["out"].untyped_storage().nbytes()
    tilewright.hc_prenorm(a, b, tactic=tactic, **form, **made)
    what = f"{tactic} {tuple(a.shape)} {b.shape[0]} {form}"
    for actual, right in zip(made.values(), wanted, strict=True):
        prenorm_reference.compare(actual, right, what)
    beyond = torch.empty(0, device="cuda").set_(made["out"].untyped_storage()).view(-1, b.shape[0] + 8)
    assert beyond.nbytes == room
    assert bool(beyond[:, b.shape[0] :].isnan().all()), f"{what}: columns beyond n are written"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_form(kernel: KernelRecord, shape: tuple[int, int]) -> None:
    (m, k), columns = shape, kernel.config["tile"][1]
    for n in {columns, 8}:
        a, b = operands(m, n, k)
        for form in FORMS:
            expected = reference(a, b, **form)
            check(kernel.name, a, b, form, expected)


def test_equal_runs(kernel: KernelRecord) -> None:
    """The order of sums is fixed, whichever thread block comes first."""
    a, b = operands(700, 24 if kernel.config["tile"][1] >= 24 else 8, 7680)
    first = tilewright.hc_prenorm(a, b, tactic=kernel.name)
    made = tuple(torch.empty_like(one) for one in first)
    differ = torch.zeros((), dtype=torch.int64, device="cuda")
    for _ in range(400):
        tilewright.hc_prenorm(a, b, out=made[0], squares=made[1], tactic=kernel.name)
        differ += sum((x != y).sum() for x, y in zip(first, made, strict=True))
    assert int(differ) == 0


def test_waits_for_the_kernel_before(kernel: KernelRecord) -> None:
    for k in (128, 4096):  # whole tiles; tiles that are cut, whose sums a second kernel adds up
        a, b = operands(200, 8, k)
        wanted = reference(a, b)
        made = results(200, 8, None)

        def call(a: torch.Tensor = a, b: torch.Tensor = b, made: dict[str, torch.Tensor] = made) -> None:
            tilewright.hc_prenorm(a, b, tactic=kernel.name, **made)

        def right(
            late: str,
            made: dict[str, torch.Tensor] = made,
            wanted: tuple[torch.Tensor, ...] = wanted,
        ) -> None:
            for actual, one in zip(made.values(), wanted, strict=True):
                prenorm_reference.compare(actual, one, late)

        check_waits({"a": a, "b": b}, made, call, right)
