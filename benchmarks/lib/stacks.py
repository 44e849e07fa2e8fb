"""Stacks of layers with weights of their own, to be run by one library's products or by another's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from benchmarks.lib.deepgemm_operands import by_blocks
from benchmarks.lib.stack_layers import Layer

import tilewright
from tilewright.compat import deep_gemm as ours

PEERS = {"fp8": "DeepGEMM", "bf16": "cuBLAS"}
VARIANTS = ("products", "model")
READS: dict[str, Callable[[torch.Tensor], Any]] = {"fp8": by_blocks, "bf16": lambda matrix: matrix}
"""What products of a type read of a BF16 matrix of weights."""
# The norm of the difference of both sides' products, relative to the peer's: both round to BF16, which each
# accounts for 1.7e-3 of; FP8 sums lose bits in the tensor core besides.
TOLERANCE = 1e-2

Matrix: TypeAlias = Any
"""A BF16 tensor, or a pair of FP8 data and scales."""
Multiply: TypeAlias = Callable[[Matrix, Matrix], torch.Tensor]
"""A product of activations [m, k] and weights [n, k], in BF16."""


def multiply_fp8(module: Any) -> Multiply:
    """Products with block scales of a module with DeepGEMM's functions."""

    def multiply(a: Matrix, weight: Matrix) -> torch.Tensor:
        d = torch.empty(a[0].shape[0], weight[0].shape[0], dtype=torch.bfloat16, device=a[0].device)
        module.fp8_gemm_nt(a, weight, d)
        return d

    return multiply


def multiply_constant(a: Matrix, weight: Matrix) -> torch.Tensor:
    """Our product with block scales, with the promise that the weight is constant."""
    return tilewright.scaled_gemm(a[0], weight[0].mT, a[1], weight[1].mT, constant_b=True)


def sides(dtype: str, *, constant: bool = False) -> dict[str, Multiply]:
    """The products of the peer, and ours; if `constant` also ours of constant weights, in FP8. Raises
    ImportError if DeepGEMM is not installed."""
    if dtype == "bf16":
        return {"peer": lambda a, b: torch.mm(a, b.mT), "ours": lambda a, b: tilewright.gemm(a, b.mT)}
    import deep_gemm as theirs  # noqa: PLC0415 (BF16 needs none)

    of_constants = {"constant": multiply_constant} if constant else {}
    return {"peer": multiply_fp8(theirs), "ours": multiply_fp8(ours), **of_constants}


def fused(a: Matrix, weight: Matrix) -> torch.Tensor:
    """Our product by the merged weight of a gate and an up projection, with silu(gate) * up in its
    epilogue."""
    return tilewright.gemm(a, weight.mT, activation="silu_mul")


def fused_compared(peer: Multiply, ours: Multiply, activated: Callable[[Matrix], Matrix]) -> Multiply:
    """The peer's product and then `activated`, with a comparison of ours, which does both. The peer's result
    goes on.

    Raises ValueError if the results differ by more than rounding.
    """

    def multiply(a: Matrix, weight: Matrix) -> torch.Tensor:
        expected = activated(peer(a, weight))
        check_close(ours(a, weight), expected)
        return expected

    return multiply


def check_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Raises ValueError if a side's product differs from the peer's by more than rounding."""
    difference = float((actual.double() - expected.double()).norm() / expected.double().norm())
    if not difference <= TOLERANCE:  # a NaN fails
        shape = list(expected.shape)
        raise ValueError(f"a product {shape} differs by {difference:.2e}, {TOLERANCE:.0e} is allowed")


def compared(sides: dict[str, Multiply]) -> Multiply:
    """Products of all sides, with a comparison of each. The peer's result goes on.

    A product raises ValueError if the results differ by more than rounding.
    """

    def multiply(a: Matrix, weight: Matrix) -> torch.Tensor:
        expected = sides["peer"](a, weight)
        for side in sides.keys() - {"peer"}:
            check_close(sides[side](a, weight), expected)
        return expected

    return multiply


class Weights(NamedTuple):
    """The weights of one layer, in the order of its products, and of its two norms."""

    qkv: Matrix
    out: Matrix
    gate_up: Matrix
    down: Matrix
    norms: tuple[torch.Tensor, torch.Tensor]


def random(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """Random BF16 activations or weights."""
    return torch.randn(shape, generator=generator, device="cuda", dtype=torch.bfloat16)


def random_weights(read: Callable[[torch.Tensor], Matrix], layer: Layer, count: int) -> list[Weights]:
    """Random weights of `count` layers, scaled so that a product has the variance of its activations. `read`
    makes of a BF16 matrix [n, k] what the products read (READS)."""
    generator = torch.Generator("cuda").manual_seed(1)

    def of_one_layer() -> Weights:
        qkv, out, gate_up, down = (read(random(generator, *product) * product.k**-0.5) for product in layer)
        first, second = torch.ones(2, layer.width, dtype=torch.bfloat16, device="cuda").unbind()
        return Weights(qkv, out, gate_up, down, (first, second))

    return [of_one_layer() for _ in range(count)]


class Stack:
    """Layers with given weights, and random activations of m rows for them.

    Variant `products`: the four products of each layer alone; BF16 products read what the one before wrote,
    FP8 products read activations that were quantised before. Variant `model`: RMSNorm, SiLU and additions
    between, as in a model without attention, and for FP8 the quantising of each product's activations.
    """

    def __init__(self, dtype: str, layer: Layer, m: int, weights: Sequence[Weights], variant: str) -> None:
        self._fp8, self._layer, self._variant = dtype == "fp8", layer, variant
        generator = torch.Generator("cuda").manual_seed(0)
        self._x = random(generator, m, layer.width)
        self._attended = random(generator, m, layer.out.k)  # what attention would have written
        self._layers = weights
        self._quantised = (
            [self._quantise(random(generator, m, product.k)) for product in layer] if self._fp8 else []
        )

    def run(self, multiply: Multiply, gated: Multiply | None = None) -> torch.Tensor:
        """The stack's result by a side's products, on the current stream.

        `gated`: of BF16 and variant `model`, the product of gate_up that returns silu(gate) * up [m, n/2].
        Without it, one kernel does that after the product.
        """
        x = self._x
        for weights in self._layers:
            if self._variant == "model":
                x = self._model(x, weights, multiply, gated)
            else:
                x = self._products(x, weights, multiply)
        return x

    def run_as_engines_do(self, multiply: Multiply, gated: Multiply | None = None) -> torch.Tensor:
        """Runs BF16 layers of variant `model` with the other kernels of a serving engine: each addition and
        the RMSNorm after it are one kernel, and nothing copies what attention would have written."""
        from benchmarks.lib.fused_norm import add_rms_norm  # noqa: PLC0415 (it needs Triton)

        residual, x = self._x, torch.zeros_like(self._x)
        for weights in self._layers:
            residual, normed = add_rms_norm(x, residual, weights.norms[0])
            multiply(normed, weights.qkv)
            residual, normed = add_rms_norm(multiply(self._attended, weights.out), residual, weights.norms[1])
            x = multiply(self._gated(normed, weights, multiply, gated), weights.down)
        return residual + x

    def _products(self, x: torch.Tensor, weights: Weights, multiply: Multiply) -> torch.Tensor:
        for index, product in enumerate(self._layer):
            a = self._quantised[index] if self._fp8 else x[:, : product.k]
            x = multiply(a, weights[index])
        return x

    def _model(
        self, x: torch.Tensor, weights: Weights, multiply: Multiply, gated: Multiply | None
    ) -> torch.Tensor:
        heads = multiply(self._normed(x, weights.norms[0]), weights.qkv)[:, : self._layer.out.k]
        x = x + multiply(self._quantise(heads) if self._fp8 else heads, weights.out)
        normed = self._normed(x, weights.norms[1])
        return x + multiply(self._gated(normed, weights, multiply, gated), weights.down)

    def _gated(self, normed: Matrix, weights: Weights, multiply: Multiply, gated: Multiply | None) -> Matrix:
        """silu(gate) * up, by one product or by a product and one kernel."""
        if gated is not None:
            return gated(normed, weights.gate_up)
        return self.activated(multiply(normed, weights.gate_up))

    def _normed(self, x: torch.Tensor, weight: torch.Tensor) -> Matrix:
        normed = torch.nn.functional.rms_norm(x, weight.shape, weight)
        return self._quantise(normed) if self._fp8 else normed

    def activated(self, gate_up: torch.Tensor) -> Matrix:
        """SiLU of the gate times the other half in one kernel, which for FP8 also quantises."""
        if self._fp8:
            return tilewright.quantize_fp8_blockwise(gate_up, activation="silu_mul")
        if gate_up.is_cuda:
            from benchmarks.lib.silu_mul import silu_mul  # noqa: PLC0415 (it needs Triton)

            return silu_mul(gate_up)
        gate, up = gate_up.chunk(2, dim=-1)
        return torch.nn.functional.silu(gate) * up

    @staticmethod
    def _quantise(x: torch.Tensor) -> Matrix:
        """FP8 with a scale for each 128 of k of a row, as the kernels of both sides read them."""
        return tilewright.quantize_fp8_blockwise(x)
