"""The arguments of `quantize` kernels. Kernels that quantise read x; kernels that dequantise write it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.declarations.codes import Codes
from tilewright.declarations.declaration import Code, Interface, Matrix, Number, Packed, TacticStruct
from tilewright.declarations.scaled import ScaleFactors
from tilewright.families.quantize.problem import SCALE_LAYOUTS
from tilewright.families.quantize.vocabulary import WORDS
from tilewright.formats.types import TMA_BYTES

LAYOUT = Codes(
    "tilewright_scale_layout", SCALE_LAYOUTS, prefix="TILEWRIGHT_SCALES",
    text="Where the scale of row r and column c (of `columns` = ceil(k/block)) lies in its group's scales.",
    above={
        "128x4": "Bytes. KT = ceil(columns/4); rows are padded to 128 or 8, columns to 4, with zeros.",
        "row_major": """
FP8 in blocks of 128 columns. `ld_scales` is a multiple of 4; rows from m to the next such multiple are
written with zeros.
""",
    },
    notes={
        "128x4": "((r/128)*KT + c/4)*512 + (r%32)*16 + ((r%128)/32)*4 + c%4",
        "8x4": "((r/8)*KT + c/4)*32 + (r%8)*4 + c%4",
        "linear": "r*columns + c",
        "row_major": "floats: r*columns + c; with blocks of 128x128, (r/128)*columns + c",
        "m_major": "floats: c*ld_scales + r",
        "packed": "bytes of UE8M0: ((c/4)*ld_scales + r)*4 + c%4; columns padded to 4",
    },
)  # fmt: skip
_X = Matrix(
    "x", "[group, m, k], or [group, m, 2k] if two halves are multiplied; k contiguous", pointer="void*",
    rows="m", columns="k", batch="groups", single=True, type="x", copied=True,
    parts=lambda problem: 2 if problem.fusion == "silu_mul" else 1,
)  # fmt: skip
_WEIGHT = Packed(
    "rms_weight", "[k], of x's type: the weights of RMSNorm, else null", field="weight",
    extents=("k",), type="x", alignment=TMA_BYTES,
)  # fmt: skip
_GLOBAL_SCALE = Packed(
    "global_scale", "NVFP4: one device float, or one for each row of every group; null is 1",
    pointer="const float*", alignment=4,
)  # fmt: skip
_ROWS_VALID = Packed(
    "rows_valid", "one for each group: the number of rows that are read and written; null for all rows",
    type="s32", alignment=4, shape=lambda problem: (problem.groups,),
)  # fmt: skip
_DATA = Matrix(
    "data", "[group, m, k]; FP4 lies two to a byte, the even index in the low nibble", pointer="void*",
    rows="m", columns="k", batch="groups", single=True, type="format", alignment=1,
    raw=True, made_raw=True, copied=True,
)  # fmt: skip


def _interface(x: Matrix, data: Matrix, **scales: Any) -> Interface:
    """`scales`: the name of the operand that holds data's, and whether it is written."""
    return Interface(
        words=WORDS,
        text="""
Arguments of a `quantize` kernel, in the caller's terms: x[group, m, k] becomes data and scale factors, one
for each block of a row (or, for FP8 in blocks of 128x128, of a square). A kernel that dequantises reads data
and scales, and writes x.
""",
        operands=(
            x, _WEIGHT, _GLOBAL_SCALE, _ROWS_VALID, data,
            ScaleFactors(
                what="the scales of groups follow one another", field="scales", pointer="void*",
                matrix=data, layout="layout", copied=True, **scales,
            ),
        ),
        numbers=(Number("eps", "of RMSNorm", field="epsilon"),),
        codes=(
            Code("x_parts", "the width of x over k; 0 for the width that the kernel expects", _X.parts),
            Code("layout", LAYOUT),
            Code(
                "scale_per_row", "whether there is a global scale for each row",
                lambda problem: int(problem.global_scale == "row"),
            ),
        ),
        tactic=TacticStruct(
            "tilewright_quantize_tactic",
            members=("sm_count", "blocks"),
            text="What tuning chooses: multiprocessors to use (at most the device's), and thread blocks on "
            "each; 0 for as many as there is work.",
        ),
        strides_text="Elements (not bytes, for FP4 too) between rows, and between groups; of scales in the "
        "layouts M_MAJOR and PACKED, scales or words between columns.",
    )  # fmt: skip


# Operands bear the names of the op's arguments.
INTERFACE = _interface(
    _X, replace(_DATA, name="out", field="data", written=True), name="out_scales", written=True
)
READING_BACK = _interface(replace(_X, name="out", field="x", written=True), _DATA, name="scales")
