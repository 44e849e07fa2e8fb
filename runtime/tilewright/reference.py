"""Block-scaled arithmetic in plain torch, on any device: the reference for checks of kernels.

Quantising follows the definition operation by operation in IEEE FP32. Dequantised values and products are
float64. Nothing here is fast. Needs torch. The functions are in `tilewright.tools.reference`.
"""

from __future__ import annotations

from tilewright.tools.reference.blockwise import dequantize_fp8_blockwise, quantize_fp8_blockwise
from tilewright.tools.reference.codes import (
    decode_e2m1,
    decode_e4m3,
    decode_e5m2,
    decode_ue8m0,
    encode_e2m1,
    encode_e4m3,
    encode_e5m2,
    encode_ue8m0,
    pack_e2m1,
    unpack_e2m1,
)
from tilewright.tools.reference.comparison import (
    ACCUMULATION_SLACK,
    Comparison,
    accumulation_slack,
    compare,
    error_bounds,
)
from tilewright.tools.reference.formats import FORMATS, Format, find_format
from tilewright.tools.reference.fusions import rms_norm, silu_mul
from tilewright.tools.reference.grouping import grouped_product, groups_of_rows
from tilewright.tools.reference.multiplication import magnitude, product
from tilewright.tools.reference.quantization import dequantize, nvfp4_global_scale, quantize, valid_rows

__all__ = [
    "ACCUMULATION_SLACK",
    "FORMATS",
    "Comparison",
    "Format",
    "accumulation_slack",
    "compare",
    "decode_e2m1",
    "decode_e4m3",
    "decode_e5m2",
    "decode_ue8m0",
    "dequantize",
    "dequantize_fp8_blockwise",
    "encode_e2m1",
    "encode_e4m3",
    "encode_e5m2",
    "encode_ue8m0",
    "error_bounds",
    "find_format",
    "grouped_product",
    "groups_of_rows",
    "magnitude",
    "nvfp4_global_scale",
    "pack_e2m1",
    "product",
    "quantize",
    "quantize_fp8_blockwise",
    "rms_norm",
    "silu_mul",
    "unpack_e2m1",
    "valid_rows",
]
