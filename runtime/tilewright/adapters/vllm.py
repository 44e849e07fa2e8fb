"""vLLM's linear layers with FP8 weights, computed by our kernels on Hopper.

vLLM loads `register` by its entry point (group `vllm.general_plugins`) wherever both packages are installed.
Ours stand behind vLLM's own kernels, which vLLM tries in order. `TILEWRIGHT_VLLM=first` puts ours first.
`VLLM_DISABLED_KERNELS` names kernels of either to leave out.

| kind of vLLM's | scales of activations, of weights | product |
|---|---|---|
| `fp8_block` | 1x128, 128x128 | `tilewright.scaled_gemm` |
| `fp8` | one each | `tilewright.gemm` |

Written for vLLM 0.33; docs/adapters.md says what was run.
"""

# ruff: noqa: N803 (vLLM names the arguments of a kernel's methods)

from __future__ import annotations

import os
from typing import Any

import torch
from vllm.model_executor.kernels import linear
from vllm.model_executor.kernels.linear import FP8ScaledMMLinearKernel, register_linear_kernel
from vllm.model_executor.kernels.linear.scaled_mm.BlockScaledMMLinearKernel import (
    Fp8BlockScaledMMLinearKernel,
)
from vllm.model_executor.layers.quantization.input_quant_fp8 import QuantFP8
from vllm.model_executor.layers.quantization.utils.quant_utils import GroupShape
from vllm.platforms import PlatformEnum, current_platform

import tilewright

Answer = tuple[bool, str | None]
_HOPPER = 90
_ROWS, _BLOCK = GroupShape(1, 128), GroupShape(128, 128)
_OUTPUTS = (torch.bfloat16, torch.float16)


def _on_hopper(compute_capability: int | None) -> Answer:
    if compute_capability is None:
        capability = current_platform.get_device_capability()
        compute_capability = None if capability is None else capability[0] * 10 + capability[1]
    supported = compute_capability == _HOPPER
    return supported, None if supported else f"is for compute capability 9.0, not {compute_capability}"


class TilewrightFp8BlockScaledMMKernel(Fp8BlockScaledMMLinearKernel):  # type: ignore[misc]
    """Weights with a scale for each block of 128x128, activations with one for each 128 of a row."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.quant_fp8 = QuantFP8(
            static=False,
            group_shape=_ROWS,
            use_ue8m0=False,
            column_major_scales=True,
            tma_aligned_scales=True,
        )

    @classmethod
    def is_supported(cls, compute_capability: int | None = None) -> Answer:
        return _on_hopper(compute_capability)

    @classmethod
    def can_implement(cls, config: Any) -> Answer:
        possible, reason = super().can_implement(config)
        if not possible:
            return False, reason
        if config.activation_quant_key.scale.group_shape != _ROWS:
            return False, "takes activations with scales of 1x128"
        if config.weight_quant_key.scale.group_shape != _BLOCK:
            return False, "takes weights with scales of 128x128"
        if config.out_dtype != torch.bfloat16:
            return False, f"has results of bfloat16, not {config.out_dtype}"
        n, k = config.weight_shape
        if n % 8 or k % 16:
            return False, f"takes n in multiples of 8 and k of 16, not {n} and {k}"
        return True, None

    def apply_block_scaled_mm(
        self, A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, Bs: torch.Tensor
    ) -> torch.Tensor:
        return tilewright.scaled_gemm(A, B.t(), As, Bs.t(), out_dtype=self.config.out_dtype)


class TilewrightFP8ScaledMMLinearKernel(FP8ScaledMMLinearKernel):  # type: ignore[misc]
    """Weights and activations with one scale each."""

    @classmethod
    def is_supported(cls, compute_capability: int | None = None) -> Answer:
        return _on_hopper(compute_capability)

    @classmethod
    def can_implement(cls, c: Any) -> Answer:
        for what, key in (("activations", c.activation_quant_key), ("weights", c.weight_quant_key)):
            if not key.scale.group_shape.is_per_tensor():
                return False, f"takes {what} with one scale for the tensor"
        if c.out_dtype not in _OUTPUTS:
            return False, f"has results of bfloat16 or float16, not {c.out_dtype}"
        if c.weight_shape[1] % 16:
            return False, f"takes k in multiples of 16, not {c.weight_shape[1]}"
        return True, None

    def apply_scaled_mm(
        self,
        *,
        A: torch.Tensor,
        B: torch.Tensor,
        out_dtype: torch.dtype,
        As: torch.Tensor,
        Bs: torch.Tensor,
        bias: torch.Tensor | None,
        output_shape: list[int],
    ) -> torch.Tensor:
        product = tilewright.gemm(
            A, B, scale_a=As.view(1), scale_b=Bs.view(1), bias=bias, out_dtype=out_dtype
        )
        return product.view(*output_shape)


KERNELS = {"fp8_block": TilewrightFp8BlockScaledMMKernel, "fp8": TilewrightFP8ScaledMMLinearKernel}


def register() -> None:
    """Offer our kernels to vLLM. It is called in each of vLLM's processes, sometimes twice."""
    lists = {"fp8_block": linear._POSSIBLE_FP8_BLOCK_KERNELS, "fp8": linear._POSSIBLE_FP8_KERNELS}
    for kind, kernel in KERNELS.items():
        order = lists[kind].setdefault(PlatformEnum.CUDA, [])
        if kernel not in order:
            register_linear_kernel(kernel, PlatformEnum.CUDA, kind)
        if os.environ.get("TILEWRIGHT_VLLM") == "first":  # vLLM's function can only append
            order.insert(0, order.pop(order.index(kernel)))
