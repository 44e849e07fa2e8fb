"""DeepGEMM's public functions, computed by tilewright's kernels.

    import tilewright.compat.deep_gemm as deep_gemm

Names, arguments and meaning are those of DeepGEMM 2.6; `docs/deep_gemm.md` lists the functions, and says what
differs. Errors are tilewright's (`tilewright.errors`), which name the argument. `compiled_dims` is ignored:
kernels take extents at run time.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import TYPE_CHECKING

from tilewright.compat.deep_gemm import legacy, testing, utils
from tilewright.compat.deep_gemm.attention import (
    fp8_fp4_mqa_logits,
    fp8_fp4_paged_mqa_logits,
    fp8_mqa_logits,
    fp8_paged_mqa_logits,
    get_paged_mqa_logits_metadata,
)
from tilewright.compat.deep_gemm.contractions import (
    einsum,
)
from tilewright.compat.deep_gemm.dense import (
    bf16_gemm_nn,
    bf16_gemm_nt,
    bf16_gemm_tn,
    bf16_gemm_tt,
    cublaslt_gemm_nn,
    cublaslt_gemm_nt,
    cublaslt_gemm_tn,
    cublaslt_gemm_tt,
)
from tilewright.compat.deep_gemm.hyperconnection import tf32_hc_prenorm_gemm
from tilewright.compat.deep_gemm.k_grouped import (
    k_grouped_bf16_gemm_tn_contiguous,
    k_grouped_fp8_gemm_nt_contiguous,
    k_grouped_fp8_gemm_tn_contiguous,
)
from tilewright.compat.deep_gemm.kept_scales import forget_scales, set_keep_scales
from tilewright.compat.deep_gemm.m_grouped import (
    bf16_m_grouped_gemm_nt_masked,
    fp8_m_grouped_gemm_nt_masked,
    m_grouped_bf16_gemm_nn_contiguous,
    m_grouped_bf16_gemm_nt_contiguous,
    m_grouped_bf16_gemm_nt_masked,
    m_grouped_fp8_fp4_gemm_nn_contiguous,
    m_grouped_fp8_fp4_gemm_nt_contiguous,
    m_grouped_fp8_fp4_gemm_nt_masked,
    m_grouped_fp8_gemm_nn_contiguous,
    m_grouped_fp8_gemm_nt_contiguous,
    m_grouped_fp8_gemm_nt_masked,
)
from tilewright.compat.deep_gemm.scaled import (
    fp8_einsum,
    fp8_fp4_gemm_nn,
    fp8_fp4_gemm_nt,
    fp8_fp4_gemm_tn,
    fp8_fp4_gemm_tt,
    fp8_gemm_nn,
    fp8_gemm_nt,
    fp8_gemm_nt_skip_head_mid,
    fp8_gemm_tn,
    fp8_gemm_tt,
)
from tilewright.compat.deep_gemm.scales import (
    transform_sf_into_required_layout,
)
from tilewright.compat.deep_gemm.settings import (
    get_num_sms,
    get_pdl,
    get_tc_util,
    set_block_size_multiple_of,
    set_ignore_compile_dims,
    set_num_sms,
    set_pdl,
    set_tc_util,
)
from tilewright.compat.deep_gemm.utils import (
    align,
    cast_back_from_fp4,
    ceil_div,
    ceil_to_ue8m0,
    get_k_alignment_for_contiguous_layout,
    get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor,
    get_m_alignment_for_contiguous_layout,
    get_mk_alignment_for_contiguous_layout,
    get_mn_major_tma_aligned_packed_ue8m0_tensor,
    get_mn_major_tma_aligned_tensor,
    get_theoretical_mk_alignment_for_contiguous_layout,
    get_tma_aligned_size,
    pack_ue8m0_to_int,
    per_block_cast_to_fp8,
    per_channel_cast_to_fp8,
    per_custom_dims_cast_to_fp8,
    per_token_cast_to_fp4,
    per_token_cast_to_fp8,
    set_mk_alignment_for_contiguous_layout,
    transpose_packed_fp4,
    unpack_ue8m0_from_int,
)

if TYPE_CHECKING:
    from typing import NoReturn

__all__ = [
    "align",
    "bf16_gemm_nn",
    "bf16_gemm_nt",
    "bf16_gemm_tn",
    "bf16_gemm_tt",
    "bf16_m_grouped_gemm_nt_masked",
    "cast_back_from_fp4",
    "ceil_div",
    "ceil_to_ue8m0",
    "cublaslt_gemm_nn",
    "cublaslt_gemm_nt",
    "cublaslt_gemm_tn",
    "cublaslt_gemm_tt",
    "einsum",
    "forget_scales",
    "fp8_einsum",
    "fp8_fp4_gemm_nn",
    "fp8_fp4_gemm_nt",
    "fp8_fp4_gemm_tn",
    "fp8_fp4_gemm_tt",
    "fp8_fp4_mqa_logits",
    "fp8_fp4_paged_mqa_logits",
    "fp8_gemm_nn",
    "fp8_gemm_nt",
    "fp8_gemm_nt_skip_head_mid",
    "fp8_gemm_tn",
    "fp8_gemm_tt",
    "fp8_m_grouped_gemm_nt_masked",
    "fp8_mqa_logits",
    "fp8_paged_mqa_logits",
    "get_k_alignment_for_contiguous_layout",
    "get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor",
    "get_m_alignment_for_contiguous_layout",
    "get_mk_alignment_for_contiguous_layout",
    "get_mn_major_tma_aligned_packed_ue8m0_tensor",
    "get_mn_major_tma_aligned_tensor",
    "get_num_sms",
    "get_paged_mqa_logits_metadata",
    "get_pdl",
    "get_tc_util",
    "get_theoretical_mk_alignment_for_contiguous_layout",
    "get_tma_aligned_size",
    "install",
    "k_grouped_bf16_gemm_tn_contiguous",
    "k_grouped_fp8_gemm_nt_contiguous",
    "k_grouped_fp8_gemm_tn_contiguous",
    "legacy",
    "m_grouped_bf16_gemm_nn_contiguous",
    "m_grouped_bf16_gemm_nt_contiguous",
    "m_grouped_bf16_gemm_nt_masked",
    "m_grouped_fp8_fp4_gemm_nn_contiguous",
    "m_grouped_fp8_fp4_gemm_nt_contiguous",
    "m_grouped_fp8_fp4_gemm_nt_masked",
    "m_grouped_fp8_gemm_nn_contiguous",
    "m_grouped_fp8_gemm_nt_contiguous",
    "m_grouped_fp8_gemm_nt_masked",
    "pack_ue8m0_to_int",
    "per_block_cast_to_fp8",
    "per_channel_cast_to_fp8",
    "per_custom_dims_cast_to_fp8",
    "per_token_cast_to_fp4",
    "per_token_cast_to_fp8",
    "set_block_size_multiple_of",
    "set_ignore_compile_dims",
    "set_keep_scales",
    "set_mk_alignment_for_contiguous_layout",
    "set_num_sms",
    "set_pdl",
    "set_tc_util",
    "testing",
    "tf32_hc_prenorm_gemm",
    "transform_sf_into_required_layout",
    "transpose_packed_fp4",
    "unpack_ue8m0_from_int",
    "utils",
]

__version__ = "2.6.1"  # of the interface

_MEGA = (
    "SymmBuffer", "fp8_fp4_mega_moe", "get_symm_buffer_for_mega_moe", "mega",
    "transform_weights_for_mega_moe",
)  # fmt: skip


def __getattr__(name: str) -> NoReturn:
    """Says of DeepGEMM's names that are lacking on purpose why they are."""
    message = f"module {__name__!r} has no attribute {name!r}"
    if name in _MEGA:
        message += "; kernels in which several GPUs exchange rows (Mega MoE) are not supported"
    raise AttributeError(message)


def install() -> None:
    """Makes `import deep_gemm` mean this package, for this process: for programs that name it so."""
    for module_info in pkgutil.walk_packages(__path__, f"{__name__}."):
        module = importlib.import_module(module_info.name)
        sys.modules["deep_gemm" + module_info.name.removeprefix(__name__)] = module
    sys.modules["deep_gemm"] = sys.modules[__name__]
