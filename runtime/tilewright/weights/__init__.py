"""Quantised weights: read from checkpoints, held in one form, packed into the layout that kernels read.

`QuantizedWeight` defines what a quantised weight means. Each `from_*` function reads the tensors of one kind
of checkpoint, and states their bytes. `stack` and `concatenate` join experts and projections, and
`QuantizedWeight.shard` cuts a weight for tensor parallelism. `pack_weight` makes the bytes that kernels read,
`unpack_weight` undoes it. Tensors may lie on any device.
"""

from tilewright.weights.awq import from_awq
from tilewright.weights.compressed_tensors import (
    from_int_quantized,
    from_nvfp4_pack_quantized,
    from_pack_quantized,
)
from tilewright.weights.fp4 import from_modelopt_nvfp4, from_mxfp4
from tilewright.weights.fp8 import from_fp8
from tilewright.weights.gptq import from_gptq
from tilewright.weights.joining import concatenate, stack
from tilewright.weights.packed import PackedWeight
from tilewright.weights.packing import pack_weight, unpack_weight
from tilewright.weights.quantized import QuantizedWeight

__all__ = [
    "PackedWeight",
    "QuantizedWeight",
    "concatenate",
    "from_awq",
    "from_fp8",
    "from_gptq",
    "from_int_quantized",
    "from_modelopt_nvfp4",
    "from_mxfp4",
    "from_nvfp4_pack_quantized",
    "from_pack_quantized",
    "pack_weight",
    "stack",
    "unpack_weight",
]
