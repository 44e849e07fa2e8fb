"""Scratch memory of kernels: one buffer to a (device, stream), grown when a launch needs more.

Two streams that share a stream-K workspace deadlock the GPU, so none do. A launch inside a CUDA graph
capture gets memory of its own from the graph's pool, which replays with it: the buffer of the stream
may be replaced, or be in use, when the graph runs.
"""

from __future__ import annotations

import threading

import torch

_ALIGNMENT = 256  # what the C ABI promises to kernels; torch's allocator gives 512


class Slot:
    """The workspace of one stream.

    Hold `lock` from `buffer` to the launch: clearing the workspace and the kernel that uses it are two
    entries in the stream, and another thread's must not come between them.
    """

    __slots__ = ("_buffer", "_device", "lock")

    def __init__(self, device: int) -> None:
        self._device = device
        self._buffer: torch.Tensor | None = None
        self.lock = threading.Lock()

    def buffer(self, size: int) -> torch.Tensor:
        """At least `size` bytes, valid for launches that are ordered after now in the stream."""
        if torch.cuda.is_current_stream_capturing():
            return _allocate(size, self._device)
        held = self._buffer
        if held is None or held.numel() < size:
            # The old buffer returns to torch's allocator, which hands it on in stream order.
            held = self._buffer = _allocate(size, self._device)
        return held


_slots: dict[tuple[int, int], Slot] = {}


def slot(device: int) -> Slot:
    """The slot of the current stream of CUDA device `device`, which must be the current device."""
    key = (device, torch._C._cuda_getCurrentRawStream(device))
    found = _slots.get(key)
    return _slots.setdefault(key, Slot(device)) if found is None else found


def on_host(size: int) -> torch.Tensor:
    """A workspace of kernels that run on the host."""
    room = torch.empty(size + _ALIGNMENT, dtype=torch.uint8)
    start = -room.data_ptr() % _ALIGNMENT
    return room[start : start + size]


def _allocate(size: int, device: int) -> torch.Tensor:
    rounded = -(-size // _ALIGNMENT) * _ALIGNMENT
    return torch.empty(rounded, dtype=torch.uint8, device=torch.device("cuda", device))
