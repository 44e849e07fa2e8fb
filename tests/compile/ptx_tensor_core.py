"""tcgen05: MMAs with descriptors and scale factors, and the instructions of tensor memory."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from ptx_memory import Block
from ptx_numbers import decode
from ptx_tma import swizzled

if TYPE_CHECKING:
    from ptx_machine import Cluster, Warp

_KINDS = {
    "f16": {0: "f16", 1: "bf16"},
    "f8f6f4": {0: "e4m3", 1: "e5m2"},
    "tf32": {2: "tf32"},
    "i8": {1: "s8"},
    "mxf4nvf4": {1: "e2m1"},
    "mxf4": {1: "e2m1"},
    "mxf8f6f4": {0: "e4m3", 1: "e5m2"},
}


class Sums(NamedTuple):
    """The sums of an MMA: columns of tensor memory."""

    first: int
    count: int
    accumulate: bool  # the product is added to what they hold


# A descriptor of shared memory, the type of the elements, and the bytes of k of an MMA.
Operand: TypeAlias = tuple[int, str, int]


class Scales(NamedTuple):
    """Where an MMA's scale factors lie in tensor memory, for A and for B."""

    columns: tuple[int, int]
    bytes: tuple[int, int]  # of a word: the first that the MMA reads
    count: int  # along k
    kind: str

    def of(self, block: Block, side: int, rows: int, elements: int) -> np.ndarray:
        """The factor of each element of k, [row, element]. PTX ISA, "tcgen05-mma-scale-factor": row r is lane
        r % 32 of column r / 32, and all four quarters of the lanes hold the same."""
        first = self.columns[side]
        pitch = -(-rows // 128) * 4  # columns to the words of the next 4 factors along k
        held, width = [], -(-rows // 32)
        for start in range(first, first + -(-(self.bytes[side] + self.count) // 4) * pitch, pitch):
            assert start + width <= block.columns, "scale factors outside of the allocated columns"
            words = block.tensor[:, start : start + width].reshape(4, 32, -1)
            assert (words == words[0]).all(), "the quarters of the lanes hold other scale factors"
            held.append(words[0].T.reshape(-1, 1).copy().view("u1"))
        raw = np.concatenate(held, 1)[:rows, self.bytes[side] :][:, : self.count]
        return np.repeat(decode(raw, self.kind), elements // self.count, 1)


def tensor_memory(warp: Warp, name: str, operands: list[str]) -> None:
    block = warp.block
    if ".alloc." in name:
        count = int(warp.value(operands[1], "u4")[0])
        assert block.columns == 0
        assert count & (count - 1) == 0
        assert 32 <= count <= 512
        block.columns = count
        _, offset = warp.cluster.block_of(int(warp.addresses(operands[0])[0]))
        block.shared[offset : offset + 4] = 0
    elif ".dealloc." in name:
        assert not warp.cluster.waiting, "an MMA runs while tensor memory is given back"
        assert int(warp.value(operands[1], "u4")[0]) == block.columns
        block.columns = 0
    elif ".cp." in name:
        _copy_to_tensor_memory(warp, name, operands)
    elif ".mma." in name:
        _mma(warp, name, operands)
    elif ".commit." in name:
        _commit(warp, name, operands)
    elif ".ld." in name:
        assert warp.active.all()
        address = int(warp.addresses(operands[1])[0])
        assert address >> 16 == 32 * (warp.number % 4), "a warp reads its own quarter of the lanes"
        for i, register in enumerate(operands[0].strip("{}").split(",")):
            column = (address & 0xFFFF) + i
            assert column < block.columns
            warp.write(register.strip(), block.tensor[32 * (warp.number % 4) + np.arange(32), column])
    elif "relinquish" in name or ".wait::ld" in name or "fence" in name:
        return
    else:
        raise NotImplementedError(name)


def _mma(warp: Warp, name: str, operands: list[str]) -> None:
    pair = 2 if "cta_group::2" in name else 1
    kind = re.search(r"kind::(\w+)", name)[1]
    for lane in warp.lanes():
        address = int(warp.addresses(operands[0])[lane])
        a, b = (int(warp.value(text, "u8")[lane]) for text in operands[1:3])
        word = int(warp.value(operands[3], "u4")[lane])
        accumulate = bool(warp.value(operands[-1], "u1")[lane])
        scales, bytes_of_k = None, 32
        if ".block_scale" in name:
            scales = _scales(warp, name, lane, operands, word)
            bytes_of_k = 48 if word >> 31 else 32
            word = word & ~(3 << 4 | 1 << 23 | 7 << 29) | 1 << 4
        elif operands[4].startswith("{"):
            assert not any(
                int(warp.value(text.strip(), "u4")[lane]) for text in operands[4].strip("{}").split(",")
            )
        m, n = (word >> 24 & 31) << 4, (word >> 17 & 63) << 3
        type_a, type_b = _KINDS[kind][word >> 7 & 7], _KINDS[kind][word >> 10 & 7]
        assert word >> 4 & 3 == (2 if kind == "i8" else 1), "expected sums of F32 or S32"
        assert word >> 13 & 15 == 0, "expected K-major operands, not negated"
        assert m == 128 * pair
        rank = warp.block.rank
        assert pair == 1 or rank % 2 == 0
        pairs = warp.cluster.blocks[rank : rank + pair]
        column = address & 0xFFFF
        assert address >> 16 == 0
        assert all(column + n <= block.columns for block in pairs), "sums outside of the allocated columns"

        warp.cluster.waiting.append(
            partial(
                _multiply,
                pairs,
                (a, type_a, bytes_of_k),
                (b, type_b, bytes_of_k),
                Sums(column, n, accumulate),
                scales,
            )
        )


def _scales(warp: Warp, name: str, lane: int, operands: list[str], word: int) -> Scales:
    addresses = [int(warp.addresses(text)[lane]) for text in operands[4:6]]
    firsts = word >> 29 & 3, word >> 4 & 3
    assert [address >> 30 for address in addresses] == [*firsts], "addresses and the descriptor disagree"
    assert not any(address >> 16 & 0x3FFF for address in addresses), "expected lane 0"
    kind = re.search(r"kind::(\w+)", name)[1]
    count = {"mxf4nvf4": 4 if "block16" in name else 2, "mxf4": 2, "mxf8f6f4": 1}[kind]
    if word >> 31:  # PTX ISA: of kinds of FP4, K is 96 instead of 64
        assert "f4" in kind
        assert "f8" not in kind
        count = count // 2 * 3
    columns = addresses[0] & 0xFFFF, addresses[1] & 0xFFFF
    return Scales(columns, firsts, count, "e8m0" if word >> 23 & 1 else "e4m3")


def _operand(block: Block, operand: Operand, rows: int) -> np.ndarray:
    """The rows of an MMA's k of a K-major operand in shared memory, as float64. Where they go beyond a line
    of 128 bytes, they go on at the start of the line that the descriptor's leading address names."""
    descriptor, kind, bytes_of_k = operand
    start, stride = (descriptor & 0x3FFF) << 4, ((descriptor >> 32) & 0x3FFF) << 4
    assert descriptor >> 61 == 2, "expected the swizzle of 128 bytes"
    assert descriptor >> 46 & 7 == 1, "expected version 1 of descriptors"
    assert descriptor >> 49 & 7 == 0, "expected a base offset of 0"
    assert not descriptor & 3 << 14, "expected addresses of 14 bits"
    row, byte = np.arange(rows)[:, None], np.arange(bytes_of_k)[None]
    at = start + byte
    beyond = start % 128 + byte >= 128
    if beyond.any():
        assert descriptor >> 52 & 1, "expected the address of the next line"
        at = np.where(beyond, ((descriptor >> 16 & 0x3FFF) << 4) + (start + byte) % 128, at)
    raw = block.shared[swizzled(at + row % 8 * 128 + row // 8 * stride, 128)]
    return decode(raw, kind)


def _multiply(blocks: list[Block], a: Operand, b: Operand, sums: Sums, scales: Scales | None) -> None:
    """D of an MMA: each block has the rows of its own A, and all columns."""
    columns = np.concatenate([_operand(block, b, sums.count // len(blocks)) for block in blocks])
    kind = "i4" if a[1] == "s8" else "f4"
    for block in blocks:
        held = block.tensor[:, sums.first : sums.first + sums.count]
        old = held.view(kind) if sums.accumulate else np.zeros(held.shape, kind)
        rows, own = _operand(block, a, 128), columns
        if scales is not None:
            rows = rows * scales.of(block, 0, 128, rows.shape[1])
            own = own * scales.of(block, 1, sums.count, own.shape[1])
        held[:] = (old + rows @ own.T).astype(kind).view("u4")


def _copy_to_tensor_memory(warp: Warp, name: str, operands: list[str]) -> None:
    """32 rows of 16 bytes to 4 columns, for each quarter of the lanes."""
    assert ".32x128b.warpx4" in name
    pair = 2 if "cta_group::2" in name else 1
    blocks = warp.cluster.blocks[warp.block.rank :][:pair]
    for lane in warp.lanes():
        address = int(warp.addresses(operands[0])[lane])
        descriptor = int(warp.value(operands[1], "u8")[lane])
        assert address >> 16 == 0
        assert descriptor >> 46 == 1, "expected version 1 of descriptors, without a swizzle"
        assert not descriptor >> 14 & 0x3FFFF, "expected an address of 14 bits, and no leading offset"
        start, stride = (descriptor & 0x3FFF) << 4, ((descriptor >> 32) & 0x3FFF) << 4

        def copy(start: int = start, stride: int = stride, column: int = address) -> None:
            row = np.arange(32)
            at = (start + row % 8 * 16 + row // 8 * stride)[:, None] + np.arange(16)
            for block in blocks:
                assert column + 4 <= block.columns
                words = block.shared[at].view("u4")
                block.tensor[:, column : column + 4] = np.tile(words, (4, 1))

        warp.cluster.waiting.append(copy)


def _commit(warp: Warp, name: str, operands: list[str]) -> None:
    for lane in warp.lanes():
        address = int(warp.addresses(operands[0])[lane])
        mask = int(warp.value(operands[1], "u2")[lane]) if len(operands) > 1 else 1 << (address >> 24)

        warp.cluster.waiting.append(partial(_arrive, warp.cluster, mask, address & 0xFFFFFF))


def _arrive(cluster: Cluster, mask: int, offset: int) -> None:
    for rank, block in enumerate(cluster.blocks):
        if mask >> rank & 1:
            block.barriers[offset].arrive()
