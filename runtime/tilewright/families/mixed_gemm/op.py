"""The public op."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from tilewright import weight_formats
from tilewright.architectures.device import DeviceProperties
from tilewright.calls.op import Op, Values
from tilewright.calls.placement import Arguments, Placement, aligned, place_without_copies
from tilewright.calls.publish import public
from tilewright.context import Context
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError
from tilewright.families.gemm.op import ACTIVATED
from tilewright.families.mixed_gemm.family import FAMILY
from tilewright.families.mixed_gemm.interface import INTERFACE
from tilewright.families.mixed_gemm.problem import GATED_MULTIPLE, SILU_MUL, TYPES_OF_A
from tilewright.formats.types import TMA_BYTES, bytes_of


def check_weight(values: Values, problem: Any) -> None:
    """Raises ArgumentError unless activations of 16 bits are multiplied by weights of the format, and n rows
    of a gated weight are those of gate and of up."""
    legal, n = TYPES_OF_A[problem.weight_format], problem.n
    if problem.a not in legal:
        expected = f"expected {' or '.join(legal)} for {problem.weight_format}"
        raise ArgumentError("a", f"{expected}, got {problem.a}")
    if problem.gated and n % GATED_MULTIPLE:
        raise ArgumentError("n", f"expected a multiple of {GATED_MULTIPLE} for {SILU_MUL}, got {n}")


class PackedProduct(Op):
    """What ops of products by one packed weight have in common."""

    passed = ("a", "weight", "scale", "out")

    @staticmethod
    def flops(a: Any, weight: Any, *_: Any, **__: Any) -> int:
        return int(2 * a[0] * a[1] * weight[0] * weight_formats.UNIT_N)

    def place(
        self, context: Context, arguments: Arguments, device: DeviceProperties, addresses: Mapping[str, int]
    ) -> Placement:
        """D is written element by element where TMA cannot, by kernels that are not balanced: any strides
        will do."""
        placement = place_without_copies(self.interface, arguments, addresses, judged=("out",))
        size = bytes_of(arguments.problem.d)
        elements = aligned(self.interface, arguments, TMA_BYTES // size, addresses).get("d")
        if elements is None:  # the op makes D
            return placement
        return replace(placement, problem=replace(placement.problem, alignment=elements * size))

    def without_kernel(self, problem: Any, values: Values) -> None:
        """activation(bias): k or alpha is 0."""
        out, bias = values["out"], values["bias"]
        value = torch.zeros((out.shape[0], problem.n), dtype=torch.float32, device=out.device)
        if bias is not None:
            value += bias.float()
        out.copy_(ACTIVATED[problem.activation](value))


class _Mixed(PackedProduct):
    interface = INTERFACE
    family = FAMILY
    rules = staticmethod(check_weight)


@public(_Mixed())
def packed_gemm(
    a: torch.Tensor,
    weight: torch.Tensor,
    scale: torch.Tensor,
    *,
    n: int,
    weight_format: str = "int4_g128",
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    alpha: float = 1.0,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Computes activation(alpha * (a @ W.T) + bias) for a packed weight W [n, k], on the current stream.

    W is decoded to a's type and multiplied with sums in FP32 (docs/packed_kernels.md says what is exact).

    Args:
        a: [m, k] bfloat16 or float16 (MXFP4: bfloat16), rows contiguous, in a wider tensor too; k a multiple
            of 32.
        weight: uint8 [ceil(n/64), ceil(k/128) * 4096], of 8 bits * 8192, contiguous: the packed elements.
        scale: uint8 [ceil(n/64), ceil(k/128) * bytes], contiguous: the packed scales. Those of integers and
            of E4M3 have a's type.
        n: rows of W, a multiple of 8.
        weight_format: int4_g32, int4_g64, int4_g128, int4_zp_g32, int4_zp_g64, int4_zp_g128, mxfp4, nvfp4,
            int8_g128 or e4m3_g128 (docs/packed_weights.md says which have kernels). A weight with one scale
            for each row is packed as groups of 128.
        out: [m, n], for silu_mul [m, n/2], rows contiguous, in a wider tensor too; made if absent.
        out_dtype: D's type where `out` is absent: that of a (the default), or float32.
        alpha: a factor, such as NVFP4's scale of the whole weight. If it is 0, a and W are not read.
        bias: [n] of D's type, contiguous.
        activation: none, relu, gelu (erf) or silu; applied last. silu_mul: D is silu(gate) * up, of a weight
            that `pack_weight(..., gated=True)` packed, whose n rows, like the bias, are those of gate and
            then those of up; n is a multiple of 16. With another weight, and with another activation for
            such a weight, D is wrong: the bytes do not say how they were packed (`mixed_gemm` knows).
        tactic: a kernel's name, or a tactic (`NAME@splits=4`), instead of the one the model selects.

    Returns:
        D. An empty tensor where m is 0; activation(bias) where k or alpha is 0.

    Raises:
        AlignmentError: rows of a that do not begin at multiples of 16 bytes.
    """
    raise AssertionError("`calls.protocol` writes the body")
