"""The public ops: block-scaled products of NVFP4, MXFP4 and MXFP8 matrices.

All ops have the arguments and the behaviour that `mm_nvfp4` describes; they differ in the formats of a and b.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import lcm
from typing import Any

import torch

from tilewright import scale_factors
from tilewright.architectures.device import DeviceProperties
from tilewright.calls import custom_ops
from tilewright.calls.constants import constant
from tilewright.calls.guards import refuse
from tilewright.calls.memory import check_aliasing, round_up
from tilewright.calls.op import Op, Operands, Values
from tilewright.calls.placement import Arguments, Placement, aligned, least_wanted, misaligned
from tilewright.calls.publish import public
from tilewright.context import Context
from tilewright.declarations.declaration import Combinations
from tilewright.declarations.scaled import scale_shape
from tilewright.declarations.tactics import Tactic
from tilewright.errors import NoKernelError
from tilewright.families.blockscaled_gemm.family import FAMILY
from tilewright.families.blockscaled_gemm.interface import INTERFACE
from tilewright.families.blockscaled_gemm.problem import (
    BLOCK,
    FP8_OUTPUTS,
    MOST_ALIGNED,
    OUTPUTS,
    QUANTIZED_OUTPUTS,
    SCALE_LAYOUT,
    Alignment,
    Problem,
)
from tilewright.families.gemm.op import ACTIVATED
from tilewright.formats.dtypes import as_bytes, dtype_of
from tilewright.formats.types import TYPES, bits, per_byte

_FP8 = ("mxfp8", "mxfp8_e5m2")
_MIXED = [types for fp8 in _FP8 for types in ((fp8, "mxfp4"), ("mxfp4", fp8))]
_QUANTIZED = {dtype_of(name): name for name in QUANTIZED_OUTPUTS}


def _quantizes(values: Values) -> bool:
    """Whether the epilogue makes scale factors of D."""
    return values["out_dtype"] in _QUANTIZED and values["out_scaled"]


def _check_scales(values: Values, quantizes: bool) -> None:
    """Raises ArgumentError for scales of a D that is not quantised."""
    message = "expected an out_dtype of float4_e2m1fn_x2 (NVFP4) or float8_e4m3fn, and out_scaled, beside it"
    for name in ("out_descale", "out_global_scale"):
        refuse(values[name] is not None and not quantizes, name, message)


class _Multiply(Op):
    interface = INTERFACE
    family = FAMILY
    written = ("out", "out_descale")
    replaced = ("a_descale", "b_descale")

    def __init__(self, *pairs: tuple[str, str]) -> None:
        """`pairs`: the formats of a and b."""
        without_scales = tuple(name for name in OUTPUTS if name not in QUANTIZED_OUTPUTS)
        unambiguous = tuple(name for name in without_scales if dtype_of(name) not in _QUANTIZED)
        self._combinations = {
            out_scaled: Combinations(("a", "b"), dict.fromkeys(pairs, outputs))
            for out_scaled, outputs in ((True, unambiguous + QUANTIZED_OUTPUTS), (False, without_scales))
        }

    def combinations(self, values: Values) -> Combinations:
        return self._combinations[values["out_scaled"]]

    def rules(self, values: Values, problem: Problem) -> None:
        _check_scales(values, problem.quantizes)
        plain = f"expected a result without scale factors beside it, got {values['out_dtype']}"
        refuse(problem.quantizes and problem.bias, "bias", plain)
        uneven = f"expected an even n for two elements in a byte of {values['out_dtype']}, got {problem.n}"
        refuse(problem.n % per_byte(problem.d) != 0, "out_dtype", uneven)
        without = problem.d == "nvfp4" and values["out_global_scale"] is None
        message = "expected a float32 such as 448 * 6 / amax(D), which quantises to NVFP4; got None"
        refuse(without, "out_global_scale", message)

    def place(
        self, context: Context, arguments: Arguments, device: DeviceProperties, addresses: Mapping[str, int]
    ) -> Placement:
        """Copies the operands that no kernel supports, padded with zeros to extents that a kernel of the kind
        supports: k in copies of A and B, n in a copy of B and in a D of our own.

        Scale factors are not moved, because they have more padding than any kernel needs. The scale factors
        of a matrix that serves every batch are repeated.
        """
        views, matrices = arguments.matrices, INTERFACE.matrices
        lie = aligned(INTERFACE, arguments, MOST_ALIGNED, addresses)
        for field in lie:
            matrix = matrices[field]
            if views[matrix.name].overlaps(matrix.inner(arguments.problem)):
                lie[field] = 1
        problem: Problem = replace(arguments.problem, alignment=Alignment(**lie))
        least = least_wanted(context, FAMILY, problem, device) or dict.fromkeys("abcd", 1)
        block_d = BLOCK[problem.d] if problem.quantizes else 1
        n = round_up(problem.n, lcm(least["d"], least["c"] if problem.c else 1, block_d))
        k = round_up(problem.k, lcm(least["a"], least["b"]))
        longer = {name for name, extent in (("n", n), ("k", k)) if extent != getattr(problem, name)}
        copies = misaligned(INTERFACE, addresses)
        for field, matrix in matrices.items():
            if matrix.name in views or matrix.written:
                aligns = getattr(problem.alignment, field) % least[field] == 0
                if not aligns or longer & {matrix.rows, matrix.columns}:
                    copies |= {matrix.name}
        copies |= {"bias"} if problem.bias and "n" in longer else set()
        copies |= {f"{name}_descale" for name in ("a", "b") if views[name].batch == 1 < problem.batch}
        placed = replace(problem, n=n, k=k, alignment=Alignment()) if copies else problem
        return Placement(placed, frozenset(copies))

    def without_kernel(self, problem: Problem, values: Values) -> None:
        """activation(beta * C + bias), because k is 0; a quantised D is 0 with scale factors of 0."""
        if problem.c and problem.quantizes:
            raise NoKernelError(f"{problem}: k is 0, and no kernel quantises beta * C alone")
        if not problem.quantizes:
            out, beta = values["out"], values["beta"] if problem.c else 0.0
            value = torch.zeros_like(out, dtype=torch.float32)
            if beta != 0:
                value += values["c"].to(torch.float32) * beta
            if problem.bias:
                value += values["bias"].to(torch.float32)
            value = ACTIVATED[problem.activation](value)
            if problem.d in FP8_OUTPUTS:
                value = value.clamp(-torch.finfo(out.dtype).max, torch.finfo(out.dtype).max)
            out.copy_(value)
            return
        for name in self.written:
            as_bytes(values[name]).zero_()

    def copied(self, arguments: Arguments, placement: Placement, values: dict[str, Any]) -> dict[str, Any]:
        problem = arguments.problem
        used = super().copied(arguments, placement, values)
        for name, rows in (("a", problem.m), ("b", problem.n)):
            scales, view = used[f"{name}_descale"], arguments.matrices[name]
            block = BLOCK[view.type]
            raw = as_bytes(scales).reshape(view.batch, -1)
            if -(-placement.problem.k // block) != -(-problem.k // block):
                # Kernels read the scale factors of padding, which must be 0 because 0 times NaN is NaN.
                plain = scale_factors.unswizzle(raw, rows, problem.k, block, SCALE_LAYOUT)
                raw = scale_factors.swizzle(plain, SCALE_LAYOUT)
            if view.batch == 1 < problem.batch:
                raw = raw.view(1, -1).repeat(problem.batch, 1)
                used[name] = used[name].expand(problem.batch, *used[name].shape[-2:])
            used[f"{name}_descale"] = raw.view(scales.dtype)
        return used

    def fills(self, arguments: Arguments) -> bool:
        return bool(arguments.problem.quantizes)

    def fill(self, arguments: Arguments, operands: Operands) -> Operands:
        """Adds the scale factors of a quantised D, with zeros for padding, and its global scale."""
        filled = dict(zip(INTERFACE.names, super().fill(arguments, operands), strict=True))
        descale = filled["out_descale"]
        if operands[INTERFACE.names.index("out_descale")] is not None:
            tensors = {name: tensor for name, tensor in filled.items() if name != "out_descale"}
            check_aliasing("out_descale", descale, tensors)
        if arguments.problem.pads_scales:
            as_bytes(descale).zero_()
        if filled["out_global_scale"] is None:
            assert arguments.device is not None
            filled["out_global_scale"] = constant(1.0, arguments.device)
        return tuple(filled.values())

    def variants(self) -> Mapping[str, tuple[str, ...]]:
        return {"": ("out",), "_quantized": ("out", "out_descale")}

    def variant(self, values: Values) -> str:
        return "_quantized" if _quantizes(values) else ""

    def in_graph(self, values: dict[str, Any]) -> dict[str, Any]:
        quantizes = _quantizes(values)
        _check_scales(values, quantizes)
        if quantizes and values["out_global_scale"] is None:
            # A tensor of the graph, because a graph may not keep a tensor that an op makes.
            values["out_global_scale"] = torch.ones(1, dtype=torch.float32, device=values["a"].device)
        return values

    def empty_results(self, values: Values) -> tuple[torch.Tensor, ...]:
        a, b, d = values["a"], values["b"], _QUANTIZED[values["out_dtype"]]
        m, n = a.shape[-2], b.shape[-1]
        shape = (*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), m, n // per_byte(d))
        out = torch.empty(shape, dtype=dtype_of(d), device=a.device)
        descale = (*shape[:-2], *scale_shape(m, n, d))
        return out, torch.empty(descale, dtype=dtype_of(TYPES[d].scale), device=a.device)

    def flops(self, a: torch.Size, b: torch.Size, *_: Any, **__: Any) -> int:
        packed = all(bits(name) == 4 for types in self._combinations[True].legal for name in types)
        return custom_ops.flops(a, b) * (2 if packed else 1)


@public(_Multiply(("nvfp4", "nvfp4")))
def mm_nvfp4(  # noqa: PLR0917 (as users of FlashInfer's mm_fp4 pass them)
    a: torch.Tensor,
    b: torch.Tensor,
    a_descale: torch.Tensor,
    b_descale: torch.Tensor,
    alpha: torch.Tensor | None = None,
    out_dtype: torch.dtype = torch.bfloat16,
    out: torch.Tensor | None = None,
    *,
    c: torch.Tensor | None = None,
    beta: float | None = None,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    out_scaled: bool = True,
    out_descale: torch.Tensor | None = None,
    out_global_scale: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> Any:
    """Computes activation(alpha * (a * a_descale) @ (b * b_descale) + beta * c + bias) on the current stream.

    NVFP4: E2M1 elements, two to a byte (the even one in the low nibble), blocks of 16 along k, each with an
    E4M3 scale factor. The two tensors' global scales go into `alpha`, as 1 / (scale_a * scale_b).

    Scale factors lie in the 128x4 layout: that of row r and block c of a matrix [rows, k] is at
    ((r/128)*KT + c/4)*512 + (r%32)*16 + ((r%128)/32)*4 + c%4, with KT = ceil(ceil(k/16)/4). Rows are padded
    to 128 and blocks to 4, with zeros. `tilewright.scale_factors` makes, pads and takes apart such buffers.

    Args:
        a: [m, k/2], or [batch, m, k/2], row-major. float4_e2m1fn_x2 or uint8.
        b: [k/2, n], or [batch, k/2, n], column-major: the transpose of a weight [n, k/2]. An operand without
            batch serves every batch; its scale factors are then repeated, which is a copy.
        a_descale, b_descale: the scale factors of a and of b, contiguous, padding and all, of any shape
            ([padded rows, padded blocks], or flat). float8_e4m3fn or uint8.
        alpha: one float32 on the device, read when the kernel runs; 1 if absent. a and b are read even if it
            is 0: NaN and infinities in them then make D NaN.
        out_dtype: bfloat16, float16, float32; D quantised by the kernel: float4_e2m1fn_x2 (NVFP4) or
            float8_e4m3fn (MXFP8); or FP8 without scale factors: float8_e5m2, and float8_e4m3fn with
            out_scaled=False. Such a D saturates; a scale of all of it belongs in `alpha`.
        out: D's tensor, of out_dtype (or uint8 for NVFP4), [m, n] (NVFP4: [m, n/2]) or with a batch first,
            rows contiguous, in a wider tensor too; made if absent. It may be c, and overlaps nothing else.
        c: [m, n], of D's type (bfloat16 beside a D of 4 or 8 bits); not read if beta is 0.
        beta: a number; by default 1 with c and 0 without.
        bias: [n], contiguous, of c's type; not beside a quantised D.
        activation: none, relu, gelu (erf) or silu; applied last. Not beside a quantised D.
        out_scaled: whether a D of float8_e4m3fn has scale factors. FP4 always has them, other types never.
        out_descale: the scale factors of a quantised D, to be written; made if absent.
        out_global_scale: one float32 on the device, with which a quantised D is multiplied first: NVFP4's
            global scale, 448 * 6 / amax(D). NVFP4 needs it; MXFP8 has 1 if absent.
        tactic: a kernel's name, or a tactic (`NAME@cluster=2x1,splits=4`), instead of the one selected.

    Returns:
        D; for a quantised D the pair (D, scale factors), the latter in the 128x4 layout with zeros as
        padding. An empty tensor where m, n or the batch is 0; beta * c (+ bias, activation), or 0, where k is
        0.

    Operands that no kernel can read where they lie (because TMA does not support their extents, strides or
    addresses) are copied, with padding, and the log says so.
    """
    raise AssertionError("`calls.protocol` writes the body")


@public(_Multiply(("mxfp4", "mxfp4")), like=mm_nvfp4)
def mm_mxfp4(*_: Any, **__: Any) -> Any:
    """Multiplies MXFP4 matrices, as `mm_nvfp4` does NVFP4 ones: blocks of 32 along k, each with a UE8M0 scale
    factor, 2^(byte - 127) (float8_e8m0fnu or uint8)."""


@public(_Multiply(*[(a, b) for a in _FP8 for b in _FP8]), like=mm_nvfp4)
def mm_mxfp8(*_: Any, **__: Any) -> Any:
    """Multiplies MXFP8 matrices, as `mm_nvfp4` does NVFP4 ones: a [m, k] and b [k, n] of float8_e4m3fn or
    float8_e5m2, blocks of 32 along k, each with a UE8M0 scale factor, 2^(byte - 127) (float8_e8m0fnu or
    uint8)."""


@public(_Multiply(*_MIXED), like=mm_nvfp4)
def mm_mxfp8_mxfp4(*_: Any, **__: Any) -> Any:
    """Multiplies an MXFP8 and an MXFP4 matrix, in either order, as `mm_nvfp4` does NVFP4 ones. A matrix of
    float8_e4m3fn or float8_e5m2 is MXFP8; a matrix of float4_e2m1fn_x2 or uint8 is MXFP4, with k/2 bytes
    along k. Both have blocks of 32, each with a UE8M0 scale factor, 2^(byte - 127) (float8_e8m0fnu or
    uint8)."""
