"""Calls of `gemm` drawn at random, by kernels and tactics drawn at random from all that are legal, against
float64: what no test has thought of setting beside one another."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from typing import Any

import gemm_reference as reference
import pytest
import torch

import tilewright
from tilewright.architectures.device import H200
from tilewright.calls import checks
from tilewright.calls.publish import published
from tilewright.context import current
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import (
    ACTIVATIONS,
    FP8,
    GATED,
    GATED_OUTPUTS,
    INTEGER_ACTIVATIONS,
    OUTPUTS,
    OWN_OPERANDS,
    PAIRED_COLUMNS,
    Problem,
    addends,
)

FIRST = int(os.environ.get("TILEWRIGHT_RANDOM_SEED", "0"))
CALLS = 25  # of a test
TACTICS = 4  # of a call
pytestmark = pytest.mark.marks_kernels


def extent(chance: random.Random, most: int) -> int:
    """An extent whose logarithm is uniform; most extents are divisible by no large power of two."""
    return max(1, int(2 ** chance.uniform(0, most)))


@dataclass
class Call:
    """Operands and options, and what comes of them in float64."""

    chance: random.Random
    types: tuple[str, str]
    options: dict[str, Any] = field(default_factory=dict)

    def make(self) -> None:
        chance, (a, b) = self.chance, self.types
        self.d = chance.choice(OUTPUTS[self.types])
        self.m, self.n, self.k = extent(chance, 11), extent(chance, 12), extent(chance, 13)
        if a == "s8":
            self.n, self.k = -(-self.n // 4) * 4, -(-self.k // 16) * 16
        elif a == "tf32":  # whose operands TMA reads: rows of whole 16 bytes
            self.n, self.k = -(-self.n // 4) * 4, -(-self.k // 4) * 4
        self.n += 64 // self.m * (self.m < 64)  # norms of fewer numbers say little
        self.gated = a in OWN_OPERANDS and self.d in GATED_OUTPUTS and chance.random() < 0.2
        if self.gated:
            self.n = -(-self.n // PAIRED_COLUMNS) * PAIRED_COLUMNS
        self.aligned = chance.random() < 0.6
        either = a in ("bf16", "f16")
        batch = chance.choice((0, 0, 0, 1, 2, 5)) if self.m * self.n < 2**18 else 0
        lead = [(batch,) if batch and chance.random() < 0.8 else () for _ in range(2)]
        self.lead = max(lead)
        seeds = [chance.randrange(2**31) for _ in range(5)]
        self.a = reference.random((*lead[0], self.m, self.k), a, seeds[0])
        self.b = reference.random((*lead[1], self.k, self.n), b, seeds[1])
        product = self.a.double() @ self.b.double()
        self.operands = {
            "a": reference.embed(self.a, row_major=not either or chance.random() < 0.6),
            "b": reference.embed(self.b, row_major=either and chance.random() < 0.4),
        }
        self.add(product, seeds[2:])

    def add(self, product: torch.Tensor, seeds: list[int]) -> None:
        """The epilogue: factors that are no powers of two, sums of about 1 before an activation."""
        chance, options, integer = self.chance, self.options, self.d == "s32"
        size = float(product.abs().max()) or 1.0
        alpha = -3.0 if integer else chance.choice((-1.7, 0.9, 1.3)) / size
        options["alpha"] = alpha
        kinds = addends(self.types[0], self.d)
        shape = (*self.lead, self.m, self.n)
        if not integer:
            for name in ("scale_a", "scale_b"):
                if chance.random() < 0.4:
                    factor = chance.choice((0.7, 1.9))
                    options[name] = torch.tensor([factor], device=reference.DEVICE)
                    alpha *= float(options[name])
        expected = alpha * product
        if chance.random() < 0.5 and not self.gated:
            kind = chance.choice(kinds)
            whole = bool(self.lead) and chance.random() < 0.3
            c = reference.random(shape[-2:] if whole else shape, kind, seeds[0])
            options["beta"] = 2.0 if integer else -0.6
            options["c"] = reference.embed(c)
            expected = expected + options["beta"] * c.double()
        if chance.random() < 0.5:
            options["bias"] = reference.random((self.n,), chance.choice(kinds), seeds[1])
            expected = expected + options["bias"].double()
        activations = (*GATED,) if self.gated else INTEGER_ACTIVATIONS if integer else ACTIVATIONS
        options["activation"] = chance.choice(activations)
        expected = reference.ACTIVATIONS[options["activation"]](expected)
        self.amax = None
        if self.types[0] in FP8:
            options["fast_accum"] = chance.random() < 0.5
        if self.d in FP8:
            options["amax"] = torch.zeros(1, device=reference.DEVICE)
            self.amax = float(expected.abs().max())
            scale = 200.0 / max(self.amax, 1e-3)
            options["scale_result"] = torch.tensor([scale], device=reference.DEVICE)
            expected = expected * options["scale_result"].double()
        self.wanted = expected

    def run(self, tactic: Tactic) -> None:
        out = self.output()
        options = dict(self.options)
        c = options.get("c")
        in_place = c is not None and c.dtype == out.view.dtype and c.shape == out.view.shape
        if in_place and self.chance.random() < 0.5:
            out.view.copy_(c)
            options["c"] = out.view
        if self.amax is not None:
            options["amax"].zero_()
        tilewright.gemm(**self.operands, out=out.view, tactic=tactic, **options)
        what = f"{tactic} {self}"
        config = {
            "a": self.types[0], "d": self.d, "activation": options["activation"],
            "fast_accum": options.get("fast_accum", False),
        }  # fmt: skip
        if self.d in FP8:
            compare_fp8(out.view, self.wanted, self.d, what)
        elif float(self.wanted.abs().max()) > 0:
            reference.compare(out.view, self.wanted, config, self.k, what)
        else:
            assert not out.view.double().any(), what
        out.check_borders()
        if self.amax:
            assert abs(float(options["amax"]) / self.amax - 1) < 2e-2, f"{what}: amax {options['amax']}"

    def output(self) -> reference.Output:
        return reference.Output.make(tuple(self.wanted.shape), self.d, aligned=self.aligned)

    def problem(self) -> Problem:
        """As the op sees it."""
        op = published[tilewright.gemm]
        values = op.with_factors(op.defaults() | self.operands | self.options | {"out": self.output().view})
        return checks.check(op, current(), values).problem  # type: ignore[no-any-return]

    def __str__(self) -> str:
        given = ", ".join(f"{name}={_said(one)}" for name, one in (self.operands | self.options).items())
        return f"{self.m}x{self.n}x{self.k} of {self.lead}: {given} -> {self.d}, aligned {self.aligned}"


def compare_fp8(found: torch.Tensor, wanted: torch.Tensor, d: str, what: str) -> None:
    """Element by element: where k is 1, or a bias is all there is, many results are alike and round alike, so
    that norms are off by more than the roundings of a thousand different numbers."""
    difference = (found.double() - wanted).abs()
    rms = wanted.square().mean().sqrt()
    excess = difference - reference.OUTPUT_EPSILON[d] * wanted.abs() - 0.02 * rms
    assert bool((excess <= 0).all()), f"{what}: off by {float(difference.max())}, of {float(rms)}"


def _said(value: Any) -> str:
    if isinstance(value, torch.Tensor) and value.numel() > 1:
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)} by {value.stride()}"
    return str(value.item() if isinstance(value, torch.Tensor) else value)


def tactics(call: Call) -> list[Tactic]:
    """Some of what is legal and built."""
    context, problem = current(), call.problem()
    registry = context.registry
    records = registry.runnable("gemm", context.device(0).capability)
    fitting = [one for one in FAMILY.fitting(records, problem) if registry.is_built(one)]
    actual = []
    for record in call.chance.sample(fitting, min(TACTICS, len(fitting))):
        ways = [
            *FAMILY.candidates(record, problem, H200),
            *(Tactic(record.name, *any_way(call.chance)) for _ in range(20)),
        ]
        call.chance.shuffle(ways)
        for way in ways:
            one = call.chance.choice(list(FAMILY.variants(way)))
            if FAMILY.misfit_tactic(one, record, problem) is None:
                actual.append(one)
                break
    return actual


def any_way(chance: random.Random) -> tuple[str, str, str, int, str, int]:
    """A cluster, and parts of k that meet in it or in memory, whether a selection would take them or not."""
    cluster = chance.choice(("", "", "2x1", "1x2", "2x2", "4x1", "1x4", "8x1"))
    decomposition = chance.choice(("heuristic", "split_k"))
    return cluster, "", "heuristic", 1, decomposition, chance.choice((2, 3, 4, 5, 7, 8, 11))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + 8))
@pytest.mark.parametrize("types", OUTPUTS, ids="x".join)
def test_calls_at_random(types: tuple[str, str], seed: int) -> None:
    chance = random.Random(f"{types} {seed}")
    ran = 0
    for _ in range(CALLS):
        call = Call(chance, types)
        call.make()
        for tactic in tactics(call):
            try:
                call.run(tactic)
            except ArgumentError:  # where it lies, the kernel does not take it
                continue
            ran += 1
    if not ran:
        pytest.skip("no kernel of these types is built")
