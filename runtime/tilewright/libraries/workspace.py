"""Scratch memory of kernels: a tensor of torch's allocator for each launch.

Two streams that share a stream-K workspace deadlock the GPU, so none do: the allocator hands a block on in
the order of one stream only, and a launch's block is its own until the launch is enqueued, whichever thread
makes it. In a CUDA graph's capture it comes from the graph's pool and replays with it. Nothing is kept
between launches: a buffer that outlives one would not be known to whoever owns the pool that it came from
(torch.compile's reduce-overhead runs calls in its graphs' pool before it captures them).
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

_ALIGNMENT = 256  # what the C ABI promises to kernels; torch's allocator gives 512


def maker(size: int, device: torch.device) -> Callable[[], torch.Tensor | None]:
    """What makes a workspace of `size` bytes for a launch on the current stream of `device`: None for no
    bytes. The CPU's kernels stand in for a described GPU's."""
    if not size:
        return _none
    if device.type != "cuda":
        return functools.partial(_on_host, size)
    # Not torch.empty, which takes a quarter more of the host.
    return functools.partial(torch.empty_strided, (size,), (1,), dtype=torch.uint8, device=device)


def _none() -> None:
    return None


def _on_host(size: int) -> torch.Tensor:
    room = torch.empty(size + _ALIGNMENT, dtype=torch.uint8)
    start = -room.data_ptr() % _ALIGNMENT
    return room[start : start + size]
