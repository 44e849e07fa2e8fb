"""Scratch memory of kernels: a tensor of torch's allocator for each launch.

Two streams that share a stream-K workspace deadlock the GPU, so none do: the allocator hands a block on in
the order of one stream only, and a launch's block is its own until the launch is enqueued, whichever thread
makes it. In a CUDA graph's capture it comes from the graph's pool and replays with it. Nothing is kept
between launches: a buffer that outlives one would not be known to whoever owns the pool that it came from
(torch.compile's reduce-overhead runs calls in its graphs' pool before it captures them).
"""

from __future__ import annotations

import torch

_ALIGNMENT = 256  # what the C ABI promises to kernels; torch's allocator gives 512


def on_device(size: int, device: torch.device) -> torch.Tensor:
    """`size` bytes for a launch on the current stream of `device`."""
    return torch.empty(size, dtype=torch.uint8, device=device)


def on_host(size: int) -> torch.Tensor:
    """A workspace of kernels that run on the host."""
    room = torch.empty(size + _ALIGNMENT, dtype=torch.uint8)
    start = -room.data_ptr() % _ALIGNMENT
    return room[start : start + size]
