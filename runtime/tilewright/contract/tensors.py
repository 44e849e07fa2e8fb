"""Tensors of the contract tests: moved elsewhere in memory, and compared to the bit."""

from __future__ import annotations

from typing import Any

import torch

MORE_ROOM = 4096  # bytes after a moved tensor, because scale factors may end in padding


def moved(tensor: torch.Tensor, offset: int, room: torch.Tensor | None = None) -> torch.Tensor:
    """The tensor at `offset` bytes after an aligned address: within `room`, which keeps its content, or in
    memory of its own, with the tensor's values."""
    buffer = torch.zeros(bytes_of(tensor) + offset + MORE_ROOM, dtype=torch.uint8) if room is None else room
    ends = offset + (len(buffer) - offset) // tensor.element_size() * tensor.element_size()
    result = buffer[offset:ends].view(tensor.dtype).as_strided(tensor.shape, tensor.stride())
    if room is None:
        raw(result).copy_(raw(tensor))
    return result


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that torch can copy and compare, whatever its type."""
    return tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor


def bytes_of(tensor: torch.Tensor) -> int:
    """From its first byte to its last."""
    last = sum((extent - 1) * step for extent, step in zip(tensor.shape, tensor.stride(), strict=True))
    return int((last + 1) * tensor.element_size())


def lies(tensor: torch.Tensor) -> tuple[Any, ...]:
    """All that a fake tensor knows of a real one."""
    return tensor.shape, tensor.dtype, tensor.stride(), tensor.device


def all_of(result: Any) -> tuple[torch.Tensor, ...]:
    """What an op answers, as a tuple."""
    return result if isinstance(result, tuple) else (result,)


def same(actual: Any, expected: Any) -> bool:
    """Bit for bit, shape and type: a tensor, or a tuple of them."""
    if isinstance(expected, tuple):
        assert len(actual) == len(expected)
        return all(map(same, actual, expected))
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[actual.element_size()]
    both = [x.clone(memory_format=torch.contiguous_format).view(integer) for x in (actual, expected)]
    return bool(torch.equal(*both))
