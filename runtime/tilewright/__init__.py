"""Tilewright's runtime: routes, selects, builds and runs generated kernels.

`tilewright.<op>` is the op of that name (`tilewright.gemm`); `kernels` lists what there is; `bundle`,
`context`, `errors`, `scale_factors`, `blockwise_scales`, `row_shuffle`, `reference` and `weights` are modules
for its callers.
Importing this package compiles nothing and imports neither torch nor TVM-FFI.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from tilewright.version import __version__ as __version__

if TYPE_CHECKING:
    from tilewright import blockwise_scales as blockwise_scales
    from tilewright import bundle as bundle
    from tilewright import context as context
    from tilewright import errors as errors
    from tilewright import reference as reference
    from tilewright import row_shuffle as row_shuffle
    from tilewright import scale_factors as scale_factors
    from tilewright import weights as weights
    from tilewright.architectures.device import DeviceProperties as DeviceProperties
    from tilewright.calls.prepared import plan as plan
    from tilewright.context import Context as Context
    from tilewright.context import batch_invariant as batch_invariant
    from tilewright.contractions.einsum import einsum as einsum
    from tilewright.errors import TilewrightError as TilewrightError
    from tilewright.families.blockscaled_gemm.op import mm_mxfp4 as mm_mxfp4
    from tilewright.families.blockscaled_gemm.op import mm_mxfp8 as mm_mxfp8
    from tilewright.families.blockscaled_gemm.op import mm_mxfp8_mxfp4 as mm_mxfp8_mxfp4
    from tilewright.families.blockscaled_gemm.op import mm_nvfp4 as mm_nvfp4
    from tilewright.families.blockscaled_grouped_gemm.op import grouped_mm_mxfp4 as grouped_mm_mxfp4
    from tilewright.families.blockscaled_grouped_gemm.op import grouped_mm_mxfp8 as grouped_mm_mxfp8
    from tilewright.families.blockscaled_grouped_gemm.op import (
        grouped_mm_mxfp8_mxfp4 as grouped_mm_mxfp8_mxfp4,
    )
    from tilewright.families.blockscaled_grouped_gemm.op import grouped_mm_nvfp4 as grouped_mm_nvfp4
    from tilewright.families.gemm.op import gemm as gemm
    from tilewright.families.grouped_gemm.op import grouped_gemm_contiguous as grouped_gemm_contiguous
    from tilewright.families.grouped_gemm.op import grouped_gemm_k as grouped_gemm_k
    from tilewright.families.grouped_gemm.op import grouped_gemm_masked as grouped_gemm_masked
    from tilewright.families.grouped_gemm.op import scaled_gemm as scaled_gemm
    from tilewright.families.hc_prenorm.op import hc_prenorm as hc_prenorm
    from tilewright.families.mixed_fp8_gemm.op import packed_fp8_gemm as packed_fp8_gemm
    from tilewright.families.mixed_fp8_grouped_gemm.op import (
        packed_fp8_grouped_gemm as packed_fp8_grouped_gemm,
    )
    from tilewright.families.mixed_gemm.call import mixed_gemm as mixed_gemm
    from tilewright.families.mixed_gemm.op import packed_gemm as packed_gemm
    from tilewright.families.mixed_grouped_gemm.call import mixed_grouped_gemm as mixed_grouped_gemm
    from tilewright.families.mixed_grouped_gemm.op import packed_grouped_gemm as packed_grouped_gemm
    from tilewright.families.mqa_logits.op import mqa_logits as mqa_logits
    from tilewright.families.mqa_logits.op import paged_mqa_logits as paged_mqa_logits
    from tilewright.families.mqa_logits.op import paged_mqa_schedule as paged_mqa_schedule
    from tilewright.families.quantize.op import dequantize_fp8_blockwise as dequantize_fp8_blockwise
    from tilewright.families.quantize.op import dequantize_mxfp4 as dequantize_mxfp4
    from tilewright.families.quantize.op import dequantize_mxfp8 as dequantize_mxfp8
    from tilewright.families.quantize.op import dequantize_nvfp4 as dequantize_nvfp4
    from tilewright.families.quantize.op import quantize_fp8_blockwise as quantize_fp8_blockwise
    from tilewright.families.quantize.op import quantize_mxfp4 as quantize_mxfp4
    from tilewright.families.quantize.op import quantize_mxfp8 as quantize_mxfp8
    from tilewright.families.quantize.op import quantize_nvfp4 as quantize_nvfp4
    from tilewright.families.reduced_gemm.op import reduced_gemm as reduced_gemm
    from tilewright.families.scale_columns.op import scale_columns as scale_columns
    from tilewright.families.transpose_fp8.op import transpose_fp8 as transpose_fp8
    from tilewright.libraries.registry import Registry as Registry
    from tilewright.tools.listing import kernels as kernels
    from tilewright.tools.tuning.session import tune as tune
    from tilewright.weights import PackedWeight as PackedWeight
    from tilewright.weights import QuantizedWeight as QuantizedWeight
    from tilewright.weights import pack_weight as pack_weight
    from tilewright.weights import unpack_weight as unpack_weight

__all__ = [
    "Context", "DeviceProperties", "PackedWeight", "QuantizedWeight", "Registry", "TilewrightError",
    "batch_invariant", "blockwise_scales", "bundle", "context", "dequantize_fp8_blockwise",
    "dequantize_mxfp4", "dequantize_mxfp8", "dequantize_nvfp4", "einsum", "errors", "gemm",
    "grouped_gemm_contiguous", "grouped_gemm_k", "grouped_gemm_masked", "grouped_mm_mxfp4",
    "grouped_mm_mxfp8", "grouped_mm_mxfp8_mxfp4", "grouped_mm_nvfp4", "hc_prenorm", "kernels",
    "mixed_gemm", "mixed_grouped_gemm", "mm_mxfp4", "mm_mxfp8", "mm_mxfp8_mxfp4", "mm_nvfp4",
    "mqa_logits", "pack_weight", "packed_fp8_gemm", "packed_fp8_grouped_gemm", "packed_gemm",
    "packed_grouped_gemm",
    "paged_mqa_logits", "paged_mqa_schedule", "plan", "quantize_fp8_blockwise", "quantize_mxfp4",
    "quantize_mxfp8", "quantize_nvfp4", "reduced_gemm", "reference", "row_shuffle", "scale_columns",
    "scale_factors", "scaled_gemm", "transpose_fp8", "tune", "unpack_weight", "weights",
]  # fmt: skip

if _log := os.environ.get("TILEWRIGHT_LOG"):
    importlib.import_module("tilewright.base.logs").set_up(_log)

_HOMES = {
    "Context": "tilewright.context",
    "DeviceProperties": "tilewright.architectures.device",
    "PackedWeight": "tilewright.weights",
    "QuantizedWeight": "tilewright.weights",
    "Registry": "tilewright.libraries.registry",
    "TilewrightError": "tilewright.errors",
    "batch_invariant": "tilewright.context",
    "einsum": "tilewright.contractions.einsum",
    "kernels": "tilewright.tools.listing",
    "mixed_gemm": "tilewright.families.mixed_gemm.call",
    "mixed_grouped_gemm": "tilewright.families.mixed_grouped_gemm.call",
    "pack_weight": "tilewright.weights",
    "plan": "tilewright.calls.prepared",
    "tune": "tilewright.tools.tuning.session",
    "unpack_weight": "tilewright.weights",
}
_MODULES = (
    "blockwise_scales",
    "bundle",
    "context",
    "errors",
    "reference",
    "row_shuffle",
    "scale_factors",
    "weights",
)


def __getattr__(name: str) -> Any:
    home = f"tilewright.{name}" if name in _MODULES else _HOMES.get(name)
    if home is None and not name.startswith("_") and not _is_module(name):
        home = _ops().get(name)
    if home is None:
        here = sys.modules[__name__]
        message = f"module {__name__!r} has no attribute {name!r}{_ops_of(name)}"
        raise AttributeError(message, name=name, obj=here)
    try:
        module = importlib.import_module(home)
        value = module if name in _MODULES else getattr(module, name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        stand_ins = importlib.import_module("tilewright.calls.stand_ins")
        if name in _MODULES:
            raise stand_ins.needs_torch(name) from None
        return stand_ins.stand_in(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def _is_module(name: str) -> bool:
    """Whether a module here has the name: `from tilewright import paths` asks for the attribute before it
    imports the module, and must not wait until all families have been asked for their ops."""
    ends = (f"{name}.py", f"{name}/__init__.py")
    return any(os.path.exists(f"{folder}/{end}") for folder in __path__ for end in ends)  # noqa: PTH110


def _ops() -> dict[str, str]:
    """The module of each op: a family's package lists among its OPS which are its own."""
    catalog = importlib.import_module("tilewright.declarations.catalog")
    return {
        op: f"{home}.op" for home in catalog.packages().values() for op in importlib.import_module(home).OPS
    }


def _ops_of(name: str) -> str:
    """What to call instead, where `name` is a family's and its ops have other names."""
    if name.startswith("_") or _is_module(name):
        return ""
    ops = [op for op, home in _ops().items() if home.split(".")[-2] == name]
    return f": the ops of that family are {', '.join(f'{__name__}.{op}' for op in ops)}" if ops else ""
