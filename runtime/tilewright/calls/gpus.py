"""Which GPU is current, if the machine has several."""

from __future__ import annotations

import functools

import torch


@functools.cache
def several_devices() -> bool:
    return bool(torch.cuda.device_count() > 1)


def on_other_device(tensor: torch.Tensor) -> bool:
    """Whether the tensor's GPU is not the current one, on which launches go."""
    return bool(tensor.is_cuda and tensor.get_device() != torch.cuda.current_device())
