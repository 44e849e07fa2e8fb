"""Scratch memory of kernels: a tensor of torch's allocator for each launch.

Two streams that share a stream-K workspace deadlock the GPU. So each launch has a workspace of its own: the
allocator reuses a block only in the order of one stream, and a launch keeps its block until it is enqueued,
in any thread. In a CUDA graph's capture the block comes from the graph's pool and replays with it. Nothing is
kept between launches, because the owner of the pool would not know of a buffer that outlives a launch
(torch.compile's reduce-overhead runs calls in its graphs' pool before it captures them).
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

_ALIGNMENT = 256  # bytes that the C ABI promises to kernels; torch's allocator gives 512


def maker(size: int, device: torch.device) -> Callable[[], torch.Tensor | None]:
    """A function that makes a workspace of `size` bytes for a launch on the current stream of `device`; it
    returns None for no bytes. On the CPU, kernels stand in for those of a described GPU."""
    if not size:
        return _none
    if device.type != "cuda":
        return functools.partial(_on_host, size)
    # torch.empty takes a quarter more host time.
    return functools.partial(torch.empty_strided, (size,), (1,), dtype=torch.uint8, device=device)


def _none() -> None:
    return None


def _on_host(size: int) -> torch.Tensor:
    room = torch.empty(size + _ALIGNMENT, dtype=torch.uint8)
    start = -room.data_ptr() % _ALIGNMENT
    return room[start : start + size]
