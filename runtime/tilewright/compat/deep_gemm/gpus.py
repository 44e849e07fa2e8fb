"""What the GPU of a call has."""

from __future__ import annotations

import torch

import tilewright
from tilewright import context as contexts
from tilewright.architectures import table
from tilewright.calls.publish import published


def has_tcgen05(tensor: torch.Tensor) -> bool:
    """Whether the tensor's GPU multiplies by tcgen05 (10.x and 11.x), whose instructions have FP8 products
    without scales and with UE8M0 scales of 32 of k; kernels of 10.x multiply sums by FP32 scales, too."""
    return _multiplies_by(tensor, table.TCGEN05)


def is_hopper(tensor: torch.Tensor) -> bool:
    """Whether the tensor's GPU multiplies by wgmma, which has no scales: kernels multiply sums by them."""
    return _multiplies_by(tensor, table.WGMMA)


def refuse_groups(tensor: torch.Tensor) -> None:
    """Raises UnsupportedDeviceError, which says for what there are kernels, where no kernel of the tensor's
    GPU reads groups on the device."""
    if has_tcgen05(tensor):
        context = contexts.current()
        family = published[tilewright.grouped_gemm_masked].interface.family
        context.registry.route(family, context.device(tensor.device.index or 0))


def _multiplies_by(tensor: torch.Tensor, core: table.TensorCore) -> bool:
    if not tensor.is_cuda and not _described():
        return False
    return bool(_instruction(tensor.device.index or 0) == core.instruction)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _described() -> bool:
    return contexts.current().described is not None


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _instruction(index: int) -> str:
    """The name of a GPU's tensor-core instruction in PTX; "" for a GPU that the table does not have."""
    architecture = table.of_capability(contexts.current().device(index).capability)
    return "" if architecture is None else architecture.tensor_core.instruction
