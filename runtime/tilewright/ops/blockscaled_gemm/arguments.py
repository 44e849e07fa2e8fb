"""Checks the arguments of the block-scaled ops and reads from them what a plan depends on.

Everything here runs once for each combination of dtypes, shapes, strides and options.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tilewright.context import Context
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.ops.blockscaled_gemm.problem import BITS, BLOCK, QUANTIZED_OUTPUTS, c_type, scale_shape
from tilewright.ops.common import guards
from tilewright.ops.common.formats import MXFP8_FORMATS, scale_dtype
from tilewright.ops.common.guards import dims
from tilewright.ops.common.operands import MAX_EXTENT, Operand, product_shape, read_output
from tilewright.ops.common.symbolic import certainly, symbolic

_FP4_DTYPES = (torch.float4_e2m1fn_x2, torch.uint8)
OUTPUT_DTYPES = {
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f32": torch.float32,
    "nvfp4": torch.float4_e2m1fn_x2,
    "mxfp8": torch.float8_e4m3fn,
}
_OUTPUT_NAMES = {dtype: name for name, dtype in OUTPUT_DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Formats:
    """A public op: what it is called, and what its operands may be (`fp4` is its FP4 format)."""

    name: str
    fp4: str | None
    fp8: bool  # takes MXFP8: alone, or beside FP4 in either order


NVFP4 = Formats("mm_nvfp4", fp4="nvfp4", fp8=False)
MXFP4 = Formats("mm_mxfp4", fp4="mxfp4", fp8=False)
MXFP8 = Formats("mm_mxfp8", fp4=None, fp8=True)
MIXED = Formats("mm_mxfp8_mxfp4", fp4="mxfp4", fp8=True)


def formats_of(a: str, b: str) -> Formats:
    """The op that multiplies operands of these formats."""
    if a == b:
        return {"nvfp4": NVFP4, "mxfp4": MXFP4}.get(a, MXFP8)
    return MIXED if "mxfp4" in (a, b) else MXFP8


@dataclass(frozen=True, slots=True)
class Arguments:
    """Checked arguments: types, shapes and devices are right; alignment is not judged yet.

    Extents of `Problem` are elements; those of operands are bytes of FP4 and FP8, elements otherwise.
    """

    op: Formats
    a: Operand
    b: Operand
    c: Operand | None
    out: Operand | None
    m: int
    n: int
    k: int
    shape: tuple[int, ...]  # of D as a tensor
    d: str
    dtype: torch.dtype  # of D
    descale: tuple[int, ...]  # shape of the scale factors of a quantised D, else empty
    descale_is_padded: bool
    device: torch.device

    @property
    def batch(self) -> int:
        return self.shape[0] if len(self.shape) == 3 else 1

    @property
    def descale_dtype(self) -> torch.dtype:
        return scale_dtype(self.d)


def per_byte(name: str) -> int:
    """Elements in one element of a tensor: two of FP4, one of all else."""
    return 2 if BITS[name] == 4 else 1


def check(  # noqa: PLR0917 (as the ops take them)
    context: Context,
    op: Formats,
    a: torch.Tensor,
    b: torch.Tensor,
    a_descale: torch.Tensor,
    b_descale: torch.Tensor,
    alpha: torch.Tensor | None,
    out_dtype: torch.dtype,
    out: torch.Tensor | None,
    c: torch.Tensor | None,
    beta: float,
    out_descale: torch.Tensor | None,
    out_global_scale: torch.Tensor | None,
    *,
    fake: bool = False,
) -> Arguments:
    """Raises ArgumentError or ArgumentTypeError for the first argument that is wrong.

    `beta` has gone through `common.guards.factor`. `fake`: tensors may be on the meta device.
    """
    for name, value in (("a_descale", a_descale), ("b_descale", b_descale)):
        if value is None:
            raise ArgumentTypeError(name, "it is None; the scale factors of the operand are wanted")
    tensors = {
        "a": a, "b": b, "a_descale": a_descale, "b_descale": b_descale, "alpha": alpha, "out": out, "c": c,
        "out_descale": out_descale, "out_global_scale": out_global_scale,
    }  # fmt: skip
    guards.check_tensors(context, tensors, ("a", "b"), fake=fake)
    if torch.is_grad_enabled():
        guards.refuse_gradients(
            op.name, a=a, b=b, a_descale=a_descale, b_descale=b_descale, alpha=alpha, out=out, c=c,
            out_descale=out_descale, out_global_scale=out_global_scale,
        )  # fmt: skip
    formats = _formats(op, a, b)
    left, right = Operand.read("a", formats[0], a), Operand.read("b", formats[1], b)
    m, n, k = left.rows, right.columns, left.columns * per_byte(left.dtype)
    _check_k(left, right, a, b)
    _check_major(left, right)
    d = _output_name(out_dtype)
    if certainly(n % per_byte(d) != 0):
        raise ArgumentError("out_dtype", f"it is {out_dtype}, two elements to a byte, and n is {n}")
    shape = product_shape(a, b, m, n // per_byte(d))
    batch = shape[0] if len(shape) == 3 else 1
    check_scales("a_descale", a_descale, left.dtype, (left.batch, m, k))
    check_scales("b_descale", b_descale, right.dtype, (right.batch, n, k))
    if alpha is not None:
        guards.check_scalar("alpha", alpha)
    destination = None if out is None else _output("out", out, d, shape)
    if beta != 0 and c is None:
        raise ArgumentError("c", f"it is None and beta is {beta}; pass c=out to add to what out holds")
    addend = None if c is None else _output("c", c, c_type(d), (*shape[:-1], n))
    _check_quantisation(d, out_descale, out_global_scale, (batch, m, n))
    rows, columns = scale_shape(m, n, d) if d in QUANTIZED_OUTPUTS else (0, 0)
    return Arguments(
        op=op,
        a=left,
        b=right,
        c=addend if beta != 0 else None,
        out=destination,
        m=m,
        n=n,
        k=k,
        shape=shape,
        d=d,
        dtype=OUTPUT_DTYPES[d],
        descale=(*shape[:-2], rows, columns) if d in QUANTIZED_OUTPUTS else (),
        descale_is_padded=d in QUANTIZED_OUTPUTS
        and not (certainly(rows == m) and certainly(columns * BLOCK[d] == n)),
        device=a.device,
    )


def quantized_shape(
    a: torch.Tensor, b: torch.Tensor, out_dtype: torch.dtype
) -> tuple[tuple[int, ...], tuple[int, ...], torch.dtype]:
    """Of a quantised D: its tensor's shape, its scale factors' shape and dtype."""
    d = _output_name(out_dtype)
    m, n = a.shape[-2], b.shape[-1]
    shape = product_shape(a, b, m, n // per_byte(d))
    return shape, (*shape[:-2], *scale_shape(m, n, d)), scale_dtype(d)


def _formats(op: Formats, a: torch.Tensor, b: torch.Tensor) -> tuple[str, str]:
    """The formats of a and b: FP4 bears the op's, FP8 its dtype's."""
    found = []
    for name, tensor in (("a", a), ("b", b)):
        if op.fp8 and tensor.dtype in MXFP8_FORMATS:
            found.append(MXFP8_FORMATS[tensor.dtype])
        elif op.fp4 is not None and tensor.dtype in _FP4_DTYPES:
            found.append(op.fp4)
        else:
            known = [*(MXFP8_FORMATS if op.fp8 else ()), *(_FP4_DTYPES if op.fp4 else ())]
            raise ArgumentTypeError(
                name, f"its dtype is {tensor.dtype}; one of {guards.dtypes(known)} is wanted by {op.name}"
            )
    if op.fp4 is not None and op.fp8 and found.count(op.fp4) != 1:
        raise ArgumentTypeError(
            "b", f"a is {a.dtype} and b is {b.dtype}; {op.name} wants one of FP8 and one of FP4 (or uint8)"
        )
    return found[0], found[1]


def _check_k(left: Operand, right: Operand, a: torch.Tensor, b: torch.Tensor) -> None:
    k, of_b = left.columns * per_byte(left.dtype), right.rows * per_byte(right.dtype)
    if certainly(k != of_b):
        raise ArgumentError(
            "b",
            f"its shape is {dims(b.shape)}, k of {of_b}, and a's {dims(a.shape)}, k of {k}; [k, n] with the "
            f"same k is wanted, as [{k // per_byte(right.dtype)}, n] of {right.dtype}",
        )
    if certainly(k > MAX_EXTENT):
        raise ArgumentError("a", f"its k is {k}; at most {MAX_EXTENT} is possible")


def _check_major(left: Operand, right: Operand) -> None:
    """k is contiguous in both, or one byte long. To lay it so takes a copy that nobody asked for."""
    if certainly(left.columns > 1) and certainly(left.column_stride != 1):
        raise ArgumentError(
            "a", f"its strides are ({left.row_stride}, {left.column_stride}); contiguous rows are wanted"
        )
    if certainly(right.rows > 1) and certainly(right.row_stride != 1):
        raise ArgumentError(
            "b",
            f"its strides are ({right.row_stride}, {right.column_stride}); contiguous columns are wanted: "
            "the transpose of a row-major [n, k]",
        )


def _output_name(out_dtype: torch.dtype) -> str:
    if not isinstance(out_dtype, torch.dtype) or out_dtype not in _OUTPUT_NAMES:
        raise ArgumentTypeError(
            "out_dtype", f"it is {out_dtype}; one of {guards.dtypes(_OUTPUT_NAMES)} is wanted"
        )
    return _OUTPUT_NAMES[out_dtype]


def check_scales(name: str, scales: torch.Tensor, of: str, extents: tuple[int, int, int]) -> None:
    """Raises unless `scales` are the factors of matrices of format `of`, in the 128x4 layout; `extents` are
    batch, rows and k, in elements."""
    batch, rows, k = extents
    own = scale_dtype(of)
    if scales.dtype not in (own, torch.uint8):
        raise ArgumentTypeError(name, f"its dtype is {scales.dtype}; {own} or uint8 is wanted for {of}")
    padded = scale_shape(rows, k, of)
    shape = (batch, *padded) if certainly(batch > 1) else padded
    wanted = (
        f"{dims(shape)} is wanted for {rows} rows and k of {k}: "
        "the 128x4 layout, rows padded to 128 and columns to 4"
    )
    if certainly(scales.numel() != batch * padded[0] * padded[1]):
        raise ArgumentError(name, f"its shape is {dims(scales.shape)}; {wanted}")
    if not symbolic(scales) and not scales.is_contiguous():
        raise ArgumentError(name, f"its strides are {scales.stride()}; a contiguous {wanted}")


def _output(name: str, tensor: torch.Tensor, d: str, shape: tuple[int, ...]) -> Operand:
    wanted = OUTPUT_DTYPES[d]
    as_bytes = d in QUANTIZED_OUTPUTS and BITS[d] == 4 and tensor.dtype == torch.uint8
    if tensor.dtype != wanted and not as_bytes:
        source = "out_dtype" if name == "out" else "the type of C beside this D"
        raise ArgumentTypeError(name, f"its dtype is {tensor.dtype}; {wanted}, {source}, is wanted")
    return read_output(name, d, tensor, shape)


def _check_quantisation(
    d: str,
    out_descale: torch.Tensor | None,
    out_global_scale: torch.Tensor | None,
    extents: tuple[int, int, int],
) -> None:
    if d not in QUANTIZED_OUTPUTS:
        for name, tensor in (("out_descale", out_descale), ("out_global_scale", out_global_scale)):
            if tensor is not None:
                raise ArgumentError(
                    name,
                    "it goes with a quantised D: an out_dtype of float4_e2m1fn_x2 (NVFP4) or float8_e4m3fn",
                )
        return
    if out_descale is not None:
        check_scales("out_descale", out_descale, d, extents)
    if out_global_scale is not None:
        guards.check_scalar("out_global_scale", out_global_scale)
    elif d == "nvfp4":
        raise ArgumentError(
            "out_global_scale", "it is None; NVFP4 is quantised with one float32, 448 * 6 / amax(D)"
        )
