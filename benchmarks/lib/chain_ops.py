"""The chains of `chains.py`: operands in sets that are taken in turn, and calls of ops on them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import tilewright
from tilewright import context
from tilewright.families.blockscaled_gemm import family as blockscaled
from tilewright.families.blockscaled_gemm.problem import Problem as BlockscaledProblem
from tilewright.families.gemm import family as gemm
from tilewright.families.gemm.problem import Problem as GemmProblem
from tilewright.tools.timing import Replays, rotations

Shape = tuple[int, int, int]  # m, n, k
PRODUCTS = {
    ("nvfp4", "nvfp4"): tilewright.mm_nvfp4,
    ("mxfp4", "mxfp4"): tilewright.mm_mxfp4,
    ("mxfp8", "mxfp8"): tilewright.mm_mxfp8,
    ("mxfp8", "mxfp4"): tilewright.mm_mxfp8_mxfp4,
}
LAYERS = {  # n and k of models that people serve
    "llama-3.1-8b qkv": (6144, 4096),
    "llama-3.1-8b o": (4096, 4096),
    "llama-3.1-8b gate_up": (28672, 4096),
    "llama-3.1-8b down": (4096, 14336),
    "llama-3.1-70b o": (8192, 8192),
}
ROWS = (1, 16, 48, 128)
GEMM_ROWS = (16, 64, 200, 512)
QUICK = [(16, 4096, 14336), (128, 4096, 14336), (64, 6144, 4096), (128, 28672, 4096)]
MLP = (28672, 14336, 4096)  # gate and up, what is left of them, and the model's width
GLOBAL_SCALE = 448.0  # of numbers that seldom exceed 6
MOST_INPUTS = 1024


@dataclass
class Link:
    """An op of a chain: a call for each set of operands."""

    name: str
    calls: list[Callable[[], Any]]
    alone: list[Callable[[], Any]] | None = None
    """Calls for timing it by itself, where the chain's operands are few enough to stay in L2."""


@dataclass
class Chain:
    name: str
    shape: str
    links: list[Link]
    written: list[torch.Tensor]
    """All that its ops write; what the last op writes is a part of it."""

    @property
    def calls(self) -> list[Callable[[], Any]]:
        return list(itertools.chain.from_iterable(zip(*(link.calls for link in self.links), strict=True)))

    def check(self) -> None:
        """Raises SystemExit where a replay makes other bits than ops that wait for each other."""
        for call in self.calls:
            call()
            torch.cuda.synchronize()
        expected = [as_bytes(tensor).clone() for tensor in self.written]
        graph = Replays(self.calls)
        for tensor in self.written:
            as_bytes(tensor).fill_(0xFF)
        graph.replay()
        torch.cuda.synchronize()
        if not all(torch.equal(as_bytes(x), y) for x, y in zip(self.written, expected, strict=True)):
            raise SystemExit(f"{self.name} {self.shape}: a chain makes other results than its ops one by one")


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor's memory, padding included."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


class Maker:
    """Makes chains on the current GPU."""

    def __init__(self) -> None:
        self.context = context.current()
        self.device = self.context.device(torch.cuda.current_device())
        self.generator = torch.Generator("cuda").manual_seed(0)

    def random(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self.generator, device="cuda", dtype=torch.bfloat16)

    def sets(self, weight_bytes: int) -> int:
        """The number of operands that calls take in turn, so that no weight is in L2."""
        return rotations(weight_bytes, self.device.l2_bytes)

    def inputs(self, *shape: int) -> list[torch.Tensor]:
        """Random inputs, as many as keep L2 cold by themselves."""
        count = rotations(2 * shape[0] * shape[1], self.device.l2_bytes, most=MOST_INPUTS)
        return list(self.random(count, *shape))

    def quantizing(
        self, form: str, xs: Sequence[torch.Tensor], sets: int, activation: str = "none"
    ) -> tuple[Link, list[tuple[torch.Tensor, torch.Tensor]]]:
        """An op that quantises each of xs, and its results for the first `sets`."""
        options: dict[str, Any] = {} if activation == "none" else {"activation": activation}
        if form == "fp8":
            op = functools.partial(tilewright.quantize_fp8_blockwise, **options)
        elif form == "nvfp4":
            scale = torch.full((1,), GLOBAL_SCALE, device="cuda")
            op = functools.partial(tilewright.quantize_nvfp4, global_scale=scale, **options)
        else:
            op = functools.partial(getattr(tilewright, f"quantize_{form}"), **options)
        results = [op(x) for x in xs[:sets]]
        room = [results[i % sets] for i in range(len(xs))]
        calls = [
            functools.partial(op, x, out=data, out_scales=scales)
            for x, (data, scales) in zip(xs, room, strict=True)
        ]
        return Link(f"quantize_{form}", calls[:sets], calls), results

    def product(
        self, forms: tuple[str, str], quantized: Sequence[tuple[torch.Tensor, torch.Tensor]], shape: Shape
    ) -> tuple[Link, list[torch.Tensor]]:
        """A product of each quantised matrix with weights of its own, and its results."""
        m, n, k = shape
        (link,) = self.quantizing(forms[1], [self.random(n, k)], 1)[1]
        op, outs, calls = PRODUCTS[forms], [], []
        scaled = GLOBAL_SCALE**2 if "nvfp4" in forms else 1.0
        alpha = torch.full((1,), k**-0.5 / scaled, device="cuda")
        for data, scales in quantized:
            weight, weight_scales = (tensor.clone() for tensor in link)
            outs.append(torch.empty(m, n, dtype=torch.bfloat16, device="cuda"))
            calls.append(functools.partial(op, data, weight.mT, scales, weight_scales, alpha, out=outs[-1]))
        problem = BlockscaledProblem(m, n, k, a=forms[0], b=forms[1])
        return Link(self._named(op.__name__, blockscaled.FAMILY, problem), calls), outs

    def gemm(
        self, operands: Sequence[torch.Tensor], shape: Shape, a: str = "bf16"
    ) -> tuple[Link, list[torch.Tensor]]:
        """A GEMM of each of `operands` with weights of its own, and its results."""
        m, n, k = shape
        options: dict[str, Any] = {"fast_accum": True} if a == "e4m3" else {}
        outs, calls = [], []
        for operand in operands:
            weight = self.random(n, k).to(operand.dtype)
            outs.append(torch.empty(m, n, dtype=torch.bfloat16, device="cuda"))
            calls.append(
                functools.partial(tilewright.gemm, operand, weight.mT, out=outs[-1], alpha=k**-0.5, **options)
            )
        problem = GemmProblem(m, n, k, a=a, b=a, d="bf16", fast_accum=a == "e4m3")
        return Link(self._named("gemm", gemm.FAMILY, problem), calls), outs

    def _named(self, op: str, family: Any, problem: Any) -> str:
        return f"{op} ({self.context.select(family, problem, self.device).tactic})"

    def quantize_product(self, forms: tuple[str, str], shape: Shape) -> Chain:
        m, n, k = shape
        xs = self.inputs(m, k)
        count = min(self.sets(n * k // (1 if forms[1] == "mxfp8" else 2)), len(xs))
        first, operands = self.quantizing(forms[0], xs, count)
        second, outs = self.product(forms, operands, shape)
        written = [*itertools.chain.from_iterable(operands), *outs]
        return Chain(f"quantise, {' x '.join(dict.fromkeys(forms))}", text(shape), [first, second], written)

    def quantize_gemm(self, shape: Shape) -> Chain:
        m, n, k = shape
        xs = self.inputs(m, k)
        count = min(self.sets(n * k), len(xs))
        first, operands = self.quantizing("fp8", xs, count)
        second, outs = self.gemm([data for data, _ in operands], shape, "e4m3")
        written = [*itertools.chain.from_iterable(operands), *outs]
        return Chain("quantise, fp8", text(shape), [first, second], written)

    def gemm_gemm(self, shape: Shape) -> Chain:
        """[m, k] x [k, n], then x [n, k]."""
        m, n, k = shape
        xs = [self.random(m, k) for _ in range(self.sets(2 * 2 * n * k))]
        first, between = self.gemm(xs, shape)
        second, outs = self.gemm(between, (m, k, n))
        return Chain("gemm, gemm", f"{text(shape)}, {text((m, k, n))}", [first, second], [*between, *outs])

    def mlp(self, form: str, m: int) -> Chain:
        """Quantise, gate and up, silu and product quantised, down."""
        wide, half, width = MLP
        xs = self.inputs(m, width)
        count = min(self.sets((wide + half) * width // (1 if form == "mxfp8" else 2)), len(xs))
        first, operands = self.quantizing(form, xs, count)
        second, gates = self.product((form, form), operands, (m, wide, width))
        third, halves = self.quantizing(form, gates, count, "silu_mul")
        fourth, outs = self.product((form, form), halves, (m, width, half))
        written = [*itertools.chain.from_iterable([*operands, *halves]), *gates, *outs]
        return Chain(f"mlp, {form}", f"{m}x{width}", [first, second, third, fourth], written)


def text(shape: Shape) -> str:
    return "x".join(map(str, shape))


def chains(maker: Maker, quick: bool) -> Iterator[Callable[[], Chain]]:
    """Functions that make one chain each. `quick`: a few of each kind."""
    every = [*QUICK, *((m, *layer) for layer in LAYERS.values() for m in ROWS)]
    for forms in PRODUCTS:
        shapes = QUICK if quick else list(dict.fromkeys(every))
        if forms != ("nvfp4", "nvfp4"):
            shapes = shapes[2:3] if quick else shapes[:12]
        for shape in shapes:
            yield functools.partial(maker.quantize_product, forms, shape)
    for shape in QUICK[1:3] if quick else dict.fromkeys(every):
        yield functools.partial(maker.quantize_gemm, shape)
    for m in (16, 64) if quick else GEMM_ROWS:
        for n, k in [LAYERS["llama-3.1-8b qkv"]] if quick else LAYERS.values():
            yield functools.partial(maker.gemm_gemm, (m, n, k))
    for form in ("nvfp4",) if quick else ("nvfp4", "mxfp4", "mxfp8"):
        for m in (16,) if quick else (16, 64):
            yield functools.partial(maker.mlp, form, m)
