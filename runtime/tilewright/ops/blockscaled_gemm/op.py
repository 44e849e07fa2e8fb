"""The public ops: block-scaled products of NVFP4, MXFP4 and MXFP8 matrices.

All have the arguments and the behaviour that `mm_nvfp4` describes; they differ in the formats they take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from tilewright.context import Context
from tilewright.errors import ArgumentError
from tilewright.interface.op import Op, Operands, Values
from tilewright.interface.publish import public
from tilewright.ops.blockscaled_gemm import arguments as checking
from tilewright.ops.blockscaled_gemm import planning
from tilewright.ops.blockscaled_gemm.arguments import MIXED, MXFP4, MXFP8, NVFP4, OUTPUT_DTYPES, Formats
from tilewright.ops.blockscaled_gemm.family import FAMILY
from tilewright.ops.blockscaled_gemm.interface import INTERFACE
from tilewright.ops.blockscaled_gemm.problem import QUANTIZED_OUTPUTS
from tilewright.ops.common import custom_ops
from tilewright.ops.common.constants import constant
from tilewright.ops.common.formats import as_bytes
from tilewright.ops.common.memory import check_aliasing
from tilewright.ops.common.plan import Plan
from tilewright.ops.common.tactics import Tactic

_QUANTIZED = {OUTPUT_DTYPES[name] for name in QUANTIZED_OUTPUTS}


class _Multiply(Op):
    interface = INTERFACE
    family = FAMILY
    written = ("out", "out_descale")
    replaced = ("a_descale", "b_descale")
    may_fill = True

    def __init__(self, formats: Formats) -> None:
        self.formats = formats

    def check(self, context: Context, values: Values, *, fake: bool = False) -> checking.Arguments:
        given = {name: value for name, value in values.items() if name != "tactic"}
        return checking.check(context, self.formats, **given, fake=fake)

    def plan(
        self,
        context: Context,
        arguments: checking.Arguments,
        tactic: Tactic | None,
        again: Callable[..., Any],
        addresses: frozenset[tuple[str, int]] = frozenset(),
    ) -> Plan:
        plan = planning.make(context, arguments, tactic, again, addresses)
        plan.fills = bool(arguments.descale)
        return plan

    def fill(self, arguments: checking.Arguments, operands: Operands) -> Operands:
        """With the scale factors of a quantised D, their padding zeroed, and its global scale."""
        given = dict(zip(INTERFACE.names, operands, strict=True))
        descale = given["out_descale"]
        if descale is None:
            make = torch.zeros if arguments.descale_is_padded else torch.empty
            made = make(arguments.descale, dtype=torch.uint8, device=arguments.device)
            given["out_descale"] = made.view(arguments.descale_dtype)
        else:
            others = {name: tensor for name, tensor in given.items() if name != "out_descale"}
            check_aliasing("out_descale", descale, others)
            if arguments.descale_is_padded:
                as_bytes(descale).zero_()
        if given["out_global_scale"] is None:
            given["out_global_scale"] = constant(1.0, arguments.device)
        return tuple(given.values())

    def variants(self) -> Mapping[str, tuple[str, ...]]:
        return {"": ("out",), "_quantized": ("out", "out_descale")}

    def variant(self, values: Values) -> str:
        return "_quantized" if values["out_dtype"] in _QUANTIZED else ""

    def pretend(self, context: Context, values: Values) -> tuple[torch.Tensor, ...]:
        arguments = self.check(context, values, fake=True)
        d = torch.empty(arguments.shape, dtype=arguments.dtype, device=arguments.device)
        if not arguments.descale:
            return (d,)
        return d, torch.empty(arguments.descale, dtype=arguments.descale_dtype, device=arguments.device)

    def in_graph(self, values: dict[str, Any]) -> dict[str, Any]:
        if values["out_dtype"] not in _QUANTIZED:
            for name in ("out_descale", "out_global_scale"):
                if values[name] is not None:
                    raise ArgumentError(name, "it goes with a quantised D, which out_dtype is not")
        elif values["out_global_scale"] is None:  # of the graph: what an op makes may not be kept
            values["out_global_scale"] = torch.ones(1, dtype=torch.float32, device=values["a"].device)
        return values

    def room(self, values: Values) -> tuple[torch.Tensor, ...]:
        device, dtype = values["a"].device, values["out_dtype"]
        shape, descale, descale_dtype = checking.quantized_shape(values["a"], values["b"], dtype)
        made = torch.empty(shape, dtype=dtype, device=device)
        return made, torch.empty(descale, dtype=descale_dtype, device=device)

    def flops(self, a: torch.Size, b: torch.Size, *_: Any, **__: Any) -> int:
        return custom_ops.flops(a, b) * (1 if self.formats.fp8 else 2)


@public(_Multiply(NVFP4))
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
    beta: float = 0.0,
    out_descale: torch.Tensor | None = None,
    out_global_scale: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> Any:
    """alpha * (a * a_descale) @ (b * b_descale) + beta * c, on the current stream.

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
        alpha: one float32 on the device, read when the kernel runs; 1 if absent.
        out_dtype: bfloat16, float16, float32; or D quantised by the kernel: float4_e2m1fn_x2 (NVFP4) or
            float8_e4m3fn (MXFP8).
        out: D's tensor, of out_dtype (or uint8 for NVFP4), [m, n] (NVFP4: [m, n/2]) or with a batch first,
            rows contiguous, in a wider tensor too; made if absent. It may be c, and overlaps nothing else.
        c: [m, n], of D's type (bfloat16 beside a quantised D); read if beta is not 0.
        beta: a number.
        out_descale: the scale factors of a quantised D, to be written; made if absent.
        out_global_scale: one float32 on the device, with which a quantised D is multiplied first: NVFP4's
            global scale, 448 * 6 / amax(D). NVFP4 needs it; MXFP8 has 1 if absent.
        tactic: a kernel's name, or a tactic (`NAME@cluster=2x1,splits=4`), instead of the one selected.

    Returns:
        D; of a quantised D the pair (D, scale factors), the latter in the 128x4 layout, padding zeroed. An
        empty tensor where m, n or the batch is 0; beta * c, or 0, where k is 0.

    Raises:
        ArgumentError: an argument is wrong; it says which, what was given and what is wanted.
        UnsupportedDeviceError: no kernel runs on this GPU.
        NoKernelError: no kernel computes this problem.
        NotBuiltError: the kernel is not built, and TILEWRIGHT_JIT=0.

    Operands that no kernel can read as they lie (extents, strides or addresses that TMA does not take) are
    copied, with padding, which the log says.
    """
    raise AssertionError("the body is `interface.calls`'s")


@public(_Multiply(MXFP4))
def mm_mxfp4(  # noqa: PLR0917 (as users of FlashInfer's mm_fp4 pass them)
    a: torch.Tensor,
    b: torch.Tensor,
    a_descale: torch.Tensor,
    b_descale: torch.Tensor,
    alpha: torch.Tensor | None = None,
    out_dtype: torch.dtype = torch.bfloat16,
    out: torch.Tensor | None = None,
    *,
    c: torch.Tensor | None = None,
    beta: float = 0.0,
    out_descale: torch.Tensor | None = None,
    out_global_scale: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> Any:
    """As `mm_nvfp4`, of MXFP4 matrices: blocks of 32 along k, each with a UE8M0 scale factor, 2^(byte - 127)
    (float8_e8m0fnu or uint8)."""
    raise AssertionError("the body is `interface.calls`'s")


@public(_Multiply(MXFP8))
def mm_mxfp8(  # noqa: PLR0917 (as users of FlashInfer's mm_fp4 pass them)
    a: torch.Tensor,
    b: torch.Tensor,
    a_descale: torch.Tensor,
    b_descale: torch.Tensor,
    alpha: torch.Tensor | None = None,
    out_dtype: torch.dtype = torch.bfloat16,
    out: torch.Tensor | None = None,
    *,
    c: torch.Tensor | None = None,
    beta: float = 0.0,
    out_descale: torch.Tensor | None = None,
    out_global_scale: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> Any:
    """As `mm_nvfp4`, of MXFP8 matrices: a [m, k] and b [k, n] of float8_e4m3fn or float8_e5m2, blocks of 32
    along k, each with a UE8M0 scale factor, 2^(byte - 127) (float8_e8m0fnu or uint8)."""
    raise AssertionError("the body is `interface.calls`'s")


@public(_Multiply(MIXED))
def mm_mxfp8_mxfp4(  # noqa: PLR0917 (as users of FlashInfer's mm_fp4 pass them)
    a: torch.Tensor,
    b: torch.Tensor,
    a_descale: torch.Tensor,
    b_descale: torch.Tensor,
    alpha: torch.Tensor | None = None,
    out_dtype: torch.dtype = torch.bfloat16,
    out: torch.Tensor | None = None,
    *,
    c: torch.Tensor | None = None,
    beta: float = 0.0,
    out_descale: torch.Tensor | None = None,
    out_global_scale: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> Any:
    """As `mm_nvfp4`, of one MXFP8 and one MXFP4 matrix, in either order: the one of float8_e4m3fn or
    float8_e5m2 is MXFP8, the one of float4_e2m1fn_x2 or uint8 is MXFP4, with k/2 bytes along k. Both have
    blocks of 32, each with a UE8M0 scale factor, 2^(byte - 127) (float8_e8m0fnu or uint8)."""
    raise AssertionError("the body is `interface.calls`'s")
