"""The memories of the machine that runs PTX (ptx_machine.py): global, shared and tensor memory, mbarriers,
tensor maps."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ptx_machine import Warp

LANES = 32
PARAMETER, GLOBAL = 1 << 60, 1 << 40  # addresses of parameters, and of global memory
SHARED_AT = 1024  # the first byte of dynamic shared memory


@dataclass
class TensorMap:
    """A tensor in global memory, of three modes, the contiguous one first."""

    base: int  # its address
    bytes: float  # of an element; FP4 has a half
    extents: tuple[int, int, int]
    strides: tuple[int, int]  # bytes
    box: tuple[int, int]  # elements; of the third mode 1
    swizzle: int  # bytes of a line: 64 or 128; 0 if rows of a box follow each other


class Memory:
    """Global memory: named arrays of bytes, with room between them that no access may touch."""

    def __init__(self) -> None:
        self.arrays: list[tuple[int, np.ndarray]] = []

    def add(self, data: np.ndarray) -> int:
        address = GLOBAL + (1 << 32) * len(self.arrays)
        self.arrays.append((address, data.reshape(-1).view(np.uint8)))
        return address

    def at(self, address: int, count: int) -> np.ndarray:
        for base, data in self.arrays:
            if base <= address and address + count <= base + len(data):
                return data[address - base : address - base + count]
        raise IndexError(f"{count} bytes at {address - GLOBAL:#x} lie outside of all tensors")


@dataclass
class Barrier:
    """An mbarrier."""

    count: int
    pending: int
    phase: int = 0
    bytes: int = 0  # that are still to come

    def arrive(self, count: int = 1) -> None:
        self.pending -= count
        assert self.pending >= 0, "too many arrivals at an mbarrier"
        self.settle()

    def settle(self) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.phase, self.pending = self.phase ^ 1, self.count


class Block:
    """A thread block's memories."""

    def __init__(self, rank: int, shared_bytes: int) -> None:
        self.rank = rank
        self.shared = np.full(SHARED_AT + shared_bytes, 0xA5, np.uint8)
        self.tensor = np.full((128, 512), 0x7FC00BAD, np.uint32)
        self.columns = 0  # of tensor memory that are allocated
        self.barriers: dict[int, Barrier] = {}
        self.named: dict[int, set[int]] = defaultdict(set)  # the warps at each named barrier
        self.rounds: dict[int, int] = defaultdict(int)  # of each named barrier, that have ended
        self.warps: list[Warp] = []
        # Boxes that are announced to L2 and not loaded yet: the tensor map's parameter, and coordinates.
        self.announced: list[tuple[int, tuple[int, ...]]] = []
