"""The instructions of PTX that kernels in CuTe-DSL have. TMA and tensor memory have modules of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from ptx_memory import LANES, PARAMETER, Barrier
from ptx_numbers import (
    NUMBERS,
    PREDICATES,
    TESTS,
    as_floats,
    half_of_e4m3,
    larger_pairs,
    nearest_index,
    round_to_bf16,
    round_to_e4m3,
    round_to_e5m2,
)
from ptx_program import Instruction
from ptx_tensor_core import tensor_memory
from ptx_tma import tma_load, tma_prefetch, tma_store

if TYPE_CHECKING:
    from ptx_machine import Warp

_TYPES = {
    "b16": "u2",
    "u16": "u2",
    "b32": "u4",
    "u32": "u4",
    "u16x2": "u4",
    "s32": "i4",
    "f32": "f4",
    "b64": "u8",
    "u64": "u8",
    "s64": "i8",
    "f32x2": "u8",
}


def execute(warp: Warp, instruction: Instruction) -> None:
    name, operands = instruction.name, instruction.operands
    if does := _by_prefix(name):
        does(warp, name, operands)
        return
    head, *_, kind = name.split(".")
    if name.startswith("max.NaN.xorsign.abs."):
        words = (warp.value(text, "u4") for text in operands[1:])
        warp.write(operands[0], larger_pairs(*words, infinity=0x7F80 if kind == "bf16x2" else 0x7C00))
    elif kind == "pred":
        values = [warp.predicate(text) for text in operands[1:]]
        warp.write(operands[0], PREDICATES[head](*values))
    elif name in NUMBERS:
        values = [warp.value(text, _TYPES[kind]) for text in operands[1:]]
        warp.write(operands[0], NUMBERS[name](*values))
    else:
        raise NotImplementedError(instruction.text)


@functools.cache
def _by_prefix(name: str) -> Callable[[Warp, str, list[str]], None] | None:
    return next((does for prefix, does in _BY_PREFIX.items() if name.startswith(prefix)), None)


def _nothing(warp: Warp, name: str, operands: list[str]) -> None:
    """What orders accesses here already, or waits for stores that are done."""


def _move(warp: Warp, name: str, operands: list[str]) -> None:
    target, source = operands
    half, bits = ("u4", np.uint64(32)) if name.endswith("b64") else ("u2", np.uint64(16))
    if source.startswith("{"):
        low, high = (warp.value(text.strip(), half).astype("u8") for text in source.strip("{}").split(","))
        warp.write(target, (low | high << bits).astype(_TYPES[name.rpartition(".")[2]]))
    elif target.startswith("{"):
        low, high = (text.strip() for text in target.strip("{}").split(","))
        value = warp.value(source, _TYPES[name.rpartition(".")[2]]).astype("u8")
        warp.write(low, (value & ((np.uint64(1) << bits) - np.uint64(1))).astype(half))
        warp.write(high, (value >> bits).astype(half))
    else:
        warp.write(target, warp.value(source, _TYPES[name.rpartition(".")[2]]).copy())


def _copy(warp: Warp, name: str, operands: list[str]) -> None:
    """Addresses are the same in every space here."""
    warp.write(operands[0], warp.register(operands[1]).copy())


def _select(warp: Warp, name: str, operands: list[str]) -> None:
    a, b = (warp.value(text, _TYPES[name.rpartition(".")[2]]) for text in operands[1:3])
    warp.write(operands[0], np.where(warp.predicate(operands[3]), a, b))


def _compare(warp: Warp, name: str, operands: list[str]) -> None:
    _, test, kind = name.split(".")
    a, b = (warp.value(text, _TYPES[kind]) for text in operands[1:])
    warp.write(operands[0], TESTS[test](a, b))


def _elect(warp: Warp, name: str, operands: list[str]) -> None:
    warp.write(operands[0].split("|")[1], np.arange(LANES) == np.flatnonzero(warp.active)[0])


def _shuffle(warp: Warp, name: str, operands: list[str]) -> None:
    warp.write(operands[0], warp.value(operands[1], "u4")[warp.value(operands[2], "u4") & 31])


def _butterfly(warp: Warp, name: str, operands: list[str]) -> None:
    assert warp.active.all(), "a shuffle of some lanes alone"
    own = warp.value(operands[1], "u4")
    warp.write(operands[0], own[np.arange(LANES) ^ int(warp.value(operands[2], "u4")[0])])


def _funnel(warp: Warp, name: str, operands: list[str]) -> None:
    low, high = (warp.value(text, "u4").astype("u8") for text in operands[1:3])
    both, count = high << np.uint64(32) | low, np.uint64(int(operands[3]))
    warp.write(operands[0], (both << count >> np.uint64(32)).astype("u4"))


def _permute(warp: Warp, name: str, operands: list[str]) -> None:
    first, second, selector = (warp.value(text, "u4").astype("u8") for text in operands[1:])
    both, result = second << np.uint64(32) | first, np.zeros(LANES, "u8")
    for i in range(4):
        index = selector >> np.uint64(4 * i) & np.uint64(7)
        result |= (both >> index * np.uint64(8) & np.uint64(0xFF)) << np.uint64(8 * i)
    warp.write(operands[0], result.astype("u4"))


def _map_address(warp: Warp, name: str, operands: list[str]) -> None:
    offsets, ranks = warp.value(operands[1], "u4"), warp.value(operands[2], "u4")
    warp.write(operands[0], offsets & np.uint32(0xFFFFFF) | ranks << np.uint32(24))


def _shift(warp: Warp, name: str, operands: list[str]) -> None:
    value = warp.value(operands[1], _TYPES[name.rpartition(".")[2]])
    count = warp.value(operands[2], "u4").astype(value.dtype)
    warp.write(operands[0], value << count if name.startswith("shl") else value >> count)


def _add_small(warp: Warp, name: str, operands: list[str]) -> None:
    """A number of 16 bits and one of 32."""
    kind = name.rpartition(".")[2]
    warp.write(operands[0], as_floats(warp.register(operands[1]), kind) + warp.value(operands[2], "f4"))


def _convert(warp: Warp, name: str, operands: list[str]) -> None:
    if name == "cvt.rn.bf16x2.f32":
        high, low = (round_to_bf16(warp.value(text, "f4")) for text in operands[1:])
        return warp.write(operands[0], high.astype("u4") << np.uint32(16) | low)
    if name == "cvt.rn.f16x2.f32":
        high, low = (warp.value(text, "f4").astype("f2").view("u2") for text in operands[1:])
        return warp.write(operands[0], high.astype("u4") << np.uint32(16) | low)
    if name == "cvt.rn.satfinite.e4m3x2.f32":
        high, low = (round_to_e4m3(warp.value(text, "f4")) for text in operands[1:])
        return warp.write(operands[0], high << np.uint16(8) | low)
    if name == "cvt.rn.satfinite.e5m2x2.f32":
        high, low = (round_to_e5m2(warp.value(text, "f4")) for text in operands[1:])
        return warp.write(operands[0], high << np.uint16(8) | low)
    if name == "cvt.rn.f16x2.e4m3x2":
        pair = warp.value(operands[1], "u2")
        halves = (half_of_e4m3(pair >> np.uint16(shift) & np.uint16(0xFF)) for shift in (0, 8))
        low, high = (half.astype("u4") for half in halves)
        return warp.write(operands[0], high << np.uint32(16) | low)
    if name == "cvt.rzi.u32.f32":
        return warp.write(operands[0], np.trunc(warp.value(operands[1], "f4")).astype("u4"))
    if name == "cvt.rn.bf16.f32":
        return warp.write(operands[0], round_to_bf16(warp.value(operands[1], "f4")))
    if name == "cvt.rn.f16.f32":
        return warp.write(operands[0], warp.value(operands[1], "f4").astype("f2").view("u2"))
    if name == "cvt.f32.f16":
        return warp.write(operands[0], warp.register(operands[1]).view("f2").astype("f4"))
    if name == "cvt.f32.bf16":
        return warp.write(operands[0], (warp.register(operands[1]).astype("u4") << np.uint32(16)).view("f4"))
    if name == "cvt.sat.f32.f32":
        return warp.write(operands[0], np.nan_to_num(np.clip(warp.value(operands[1], "f4"), 0, 1)))
    if name == "cvt.rzi.s32.f32":
        return warp.write(operands[0], np.trunc(warp.value(operands[1], "f4")).astype("i4"))
    _, to, source = name.split(".")
    return warp.write(operands[0], warp.value(operands[1], _TYPES[source]).astype(_TYPES[to]))


def _convert_to_e2m1(warp: Warp, name: str, operands: list[str]) -> None:
    """Eight floats, of each two of which the second comes first."""
    target, *sources = operands
    word = np.zeros(LANES, "u4")
    for i, text in enumerate(sources):
        values = warp.value(text, "f4")
        code = nearest_index(np.abs(values).astype("f8"), [0, 0.5, 1, 1.5, 2, 3, 4, 6])
        code = np.where(np.isnan(values), 7, code | np.where(np.signbit(values), 8, 0))
        word |= code.astype("u4") << np.uint32(4 * (i ^ 1))
    warp.write(target, word)


def _access(warp: Warp, name: str, operands: list[str]) -> None:
    head, space, *rest = name.replace(".volatile", "").split(".")
    kind = {"u8": "u1", "b8": "u1", **_TYPES}[rest[-1]]
    size = np.dtype(kind).itemsize
    place, values = (operands[1], operands[0]) if head == "ld" else (operands[0], operands[1])
    registers = [text.strip() for text in values.strip("{}").split(",")]
    starts = warp.addresses(place)
    if space == "param":
        index, offset = (int(starts[0]) - PARAMETER) >> 16, int(starts[0]) & 0xFFFF
        data = warp.cluster.parameters[index]
        return warp.write(registers[0], np.full(LANES, np.frombuffer(data, kind, 1, offset)[0]))
    loads = head == "ld"
    held = [
        np.zeros(LANES, kind) if loads else warp.value(text, f"u{max(4, size)}").copy() for text in registers
    ]
    for lane in warp.lanes():
        start = int(starts[lane])
        assert start % (size * len(registers)) == 0, f"misaligned: {name}"
        if space.startswith("shared"):
            owner, offset = warp.cluster.block_of(start)
            assert owner is warp.block or space == "shared::cluster"
            memory = owner.shared[offset : offset + size * len(registers)]
        else:
            memory = warp.cluster.memory.at(start, size * len(registers))
        for i, elements in enumerate(held):
            part = memory[i * size : (i + 1) * size]
            if loads:
                elements[lane] = part.view(kind)[0]
            else:
                part[:] = elements[lane : lane + 1].view(np.uint8)[:size]
    if loads:
        for register, elements in zip(registers, held, strict=True):
            warp.write(register, elements)
    return None


def _mbarrier(warp: Warp, name: str, operands: list[str]) -> None:
    if ".init." in name:
        for lane in warp.lanes():
            block, offset = warp.cluster.block_of(int(warp.addresses(operands[0])[lane]))
            count = int(warp.value(operands[1], "u4")[lane])
            block.barriers[offset] = Barrier(count, count)
        return
    for lane in warp.lanes():
        block, offset = warp.cluster.block_of(int(warp.addresses(operands[1])[lane]))
        barrier = block.barriers[offset]
        if "expect_tx" in name:
            barrier.bytes += int(warp.value(operands[2], "u4")[lane])
            barrier.arrive()
        else:
            barrier.arrive(int(warp.value(operands[2], "u4")[lane]) if len(operands) > 2 else 1)


def _reduce_max(warp: Warp, name: str, operands: list[str]) -> None:
    assert warp.active.all(), "a reduction of some lanes alone"
    warp.write(operands[0], np.full(LANES, warp.value(operands[1], "u4").max()))


def _raise(warp: Warp, name: str, operands: list[str]) -> None:
    """Raises a word of global memory, as an atomic instruction does."""
    for lane in warp.lanes():
        word = warp.cluster.memory.at(int(warp.addresses(operands[0])[lane]), 4).view("u4")
        word[0] = max(word[0], warp.value(operands[1], "u4")[lane])


def _cluster_arrive(warp: Warp, name: str, operands: list[str]) -> None:
    cluster = warp.cluster
    warp.cluster_round = cluster.rounds
    cluster.arrived.add((warp.block.rank, warp.number))
    if len(cluster.arrived) == sum(len(block.warps) for block in cluster.blocks):
        cluster.arrived = set()
        cluster.rounds += 1


_BY_PREFIX: dict[str, Callable[[Warp, str, list[str]], None]] = {
    "tcgen05.fence": _nothing,
    "tcgen05.": tensor_memory,
    "cp.async.bulk.tensor.3d.global.": tma_store,
    "cp.async.bulk.tensor.3d.shared::": tma_load,
    "cp.async.bulk.prefetch.tensor.3d.L2.global": tma_prefetch,
    "cp.async.bulk.": _nothing,
    "fence.": _nothing,
    "prefetch.": _nothing,
    "griddepcontrol.": _nothing,
    "barrier.cluster.arrive": _cluster_arrive,
    "mbarrier.": _mbarrier,
    "mapa.": _map_address,
    "elect.": _elect,
    "shfl.sync.idx.": _shuffle,
    "shfl.sync.bfly.": _butterfly,
    "redux.sync.max.u32": _reduce_max,
    "red.global.max.u32": _raise,
    "shf.l.wrap.": _funnel,
    "prmt.": _permute,
    "e2m1x8": _convert_to_e2m1,
    "cvta.": _copy,
    "cvt.": _convert,
    "mov.b": _move,
    "mov.u": _move,
    "setp.": _compare,
    "selp.": _select,
    "ld.": _access,
    "st.": _access,
    "shl.": _shift,
    "shr.": _shift,
    "add.rn.f32.": _add_small,
}
