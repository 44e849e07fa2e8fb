"""TMA: boxes of tensors, swizzles, loads into shared memory and stores from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from ptx_memory import PARAMETER, Memory, TensorMap

if TYPE_CHECKING:
    from ptx_machine import Warp


def swizzled(addresses: np.ndarray, line: int) -> np.ndarray:
    if line == 128:
        return addresses ^ (((addresses >> 7) & 7) << 4)
    assert line == 64
    return addresses ^ (((addresses >> 7) & 3) << 4)


def _box_addresses(tensor: TensorMap, start: int) -> np.ndarray:
    """The address in shared memory of each byte of a box, [row, byte]."""
    row_bytes = int(tensor.box[0] * tensor.bytes)
    assert tensor.swizzle in (0, row_bytes), "rows of another size than the swizzle's lines"
    assert start % 128 == 0
    flat = start + np.arange(tensor.box[1] * row_bytes).reshape(tensor.box[1], row_bytes)
    return swizzled(flat, tensor.swizzle) if tensor.swizzle else flat


def _rows(tensor: TensorMap, place: tuple[int, int, int], memory: Memory) -> Iterator[tuple[int, int, Any]]:
    """Rows of a box that are in the tensor: number, count of bytes in the tensor, and their memory."""
    first, row, matrix = place
    count = int(max(0, min(tensor.box[0], tensor.extents[0] - first)) * tensor.bytes)
    for i in range(tensor.box[1]):
        if 0 <= row + i < tensor.extents[1] and 0 <= matrix < tensor.extents[2] and count > 0:
            address = (
                tensor.base
                + int(first * tensor.bytes)
                + (row + i) * tensor.strides[0]
                + matrix * tensor.strides[1]
            )
            yield i, count, memory.at(address, count)


def _tensor_and_place(warp: Warp, text: str, lane: int) -> tuple[int, tuple[int, int, int]]:
    """The number of the parameter with the tensor map, and the coordinates, of `[map, {coordinates}]`."""
    map_register, coordinates = re.match(r"\[(%rd\d+), \{(.*)\}\]", text).groups()
    index = (int(warp.register(map_register)[lane]) - PARAMETER) >> 16
    return index, tuple(int(warp.value(part.strip(), "i4")[lane]) for part in coordinates.split(","))


def tma_prefetch(warp: Warp, name: str, operands: list[str]) -> None:
    """A load announced to L2, which this thread block makes later."""
    for lane in warp.lanes():
        warp.block.announced.append(_tensor_and_place(warp, operands[0], lane))


def tma_load(warp: Warp, name: str, operands: list[str]) -> None:
    multicast, pair = "multicast" in name, "cta_group::2" in name
    target, source, barrier = operands[:3]
    for lane in warp.lanes():
        at, signal = int(warp.addresses(target)[lane]), int(warp.addresses(barrier)[lane])
        index, place = _tensor_and_place(warp, source, lane)
        if (index, place) in warp.block.announced:
            warp.block.announced.remove((index, place))
        tensor: TensorMap = warp.cluster.parameters[index]
        mask = int(warp.value(operands[3], "u2")[lane]) if multicast else 1 << (at >> 24)
        addresses = _box_addresses(tensor, at & 0xFFFFFF)
        data = np.zeros(addresses.shape, np.uint8)
        for i, count, held in _rows(tensor, place, warp.cluster.memory):
            data[i, :count] = held
        for rank in range(len(warp.cluster.blocks)):
            if mask >> rank & 1:
                peer = warp.cluster.blocks[rank]
                peer.shared[addresses] = data
                # The barrier of the receiver, or, without the peer bit, of the first of its pair.
                first_of_pair = pair and not signal >> 24 & 1
                receiver = rank & ~1 if first_of_pair else rank if multicast else signal >> 24
                barrier_of_stage = warp.cluster.blocks[receiver].barriers[signal & 0xFFFFFF]
                barrier_of_stage.bytes -= data.size
                barrier_of_stage.settle()


def tma_store(warp: Warp, name: str, operands: list[str]) -> None:
    for lane in warp.lanes():
        index, place = _tensor_and_place(warp, operands[0], lane)
        tensor: TensorMap = warp.cluster.parameters[index]
        _, offset = warp.cluster.block_of(int(warp.addresses(operands[1])[lane]))
        data = warp.block.shared[_box_addresses(tensor, offset)]
        for i, count, held in _rows(tensor, place, warp.cluster.memory):
            held[:] = data[i, :count]
