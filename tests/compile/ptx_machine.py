"""Runs the PTX of kernels in CuTe-DSL on the host: warps, tensor maps, mbarriers, tensor memory and MMAs as
the PTX ISA defines them. It knows the instructions that these kernels have; another one is an error.

A TMA load writes at once, as early as it may. MMAs, and the arrivals that follow them, wait: until nothing
else can go on (`late`), or at random. So a barrier that is lacking shows in the result.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from ptx_instructions import execute
from ptx_memory import LANES, PARAMETER, SHARED_AT, Block, Memory, TensorMap
from ptx_program import Program

_PREFIXES = {"%p": np.bool_, "%rs": np.uint16, "%r": np.uint32, "%rd": np.uint64}


class StuckError(Exception):
    """No warp can go on."""


@dataclass
class Launch:
    """A kernel with its arguments. A parameter is a tensor map, or bytes."""

    program: Program
    blocks: int  # of a cluster
    clusters: int
    shared_bytes: int
    memory: Memory
    parameters: list[TensorMap | bytes]
    late: bool

    def run(self) -> None:
        with np.errstate(all="ignore"):
            for index in range(self.clusters):
                Cluster(self, index).run()


class Cluster:
    """Thread blocks of a cluster, which run a kernel."""

    def __init__(self, launch: Launch, index: int) -> None:
        self.program, self.index, self.grid = launch.program, index, launch.clusters * launch.blocks
        self.memory, self.parameters, self.late = launch.memory, launch.parameters, launch.late
        self.random = np.random.default_rng(index)
        self.blocks = [Block(rank, launch.shared_bytes) for rank in range(launch.blocks)]
        # MMAs and arrivals that are issued and not done, in order.
        self.waiting: list[Callable[[], None]] = []
        self.arrived: set[tuple[int, int]] = set()  # block and number of warps at the cluster's barrier
        self.rounds = 0  # of the cluster's barrier that have ended
        for block in self.blocks:
            block.warps = [Warp(self, block, number) for number in range(self.program.threads // LANES)]

    def run(self) -> None:
        warps = [warp for block in self.blocks for warp in block.warps]
        going = {warp: warp.run() for warp in warps}
        idle = 0
        while going:
            warp = list(going)[self.random.integers(len(going))]
            before = warp.steps
            try:
                next(going[warp])
            except StopIteration:
                del going[warp]
            idle = 0 if warp.steps > before + 1 else idle + 1
            if not self.late and self.waiting and self.random.random() < 0.5:
                self.waiting.pop(0)()
            if idle > 40 * len(warps):
                if not self.waiting:
                    raise StuckError(
                        str([(w.block.rank, w.number, self.program.code[w.pcs.min()].text) for w in going])
                    )
                self.waiting.pop(0)()
                idle = 0
        for finish in self.waiting:
            finish()
        assert not any(block.announced for block in self.blocks), "what was announced to L2 was not loaded"
        assert all(block.columns == 0 for block in self.blocks), "tensor memory was not given back"

    def block_of(self, address: int) -> tuple[Block, int]:
        return self.blocks[address >> 24], address & 0xFFFFFF


class Warp:
    """Thirty-two threads in lock step: those whose next instruction is the earliest run."""

    def __init__(self, cluster: Cluster, block: Block, number: int) -> None:
        self.cluster, self.block, self.number = cluster, block, number
        self.pcs = np.zeros(LANES, np.int64)
        self.registers: dict[str, np.ndarray] = {}
        self.steps = 0
        self.rounds: dict[int, int] = {}  # of the named barriers at which it waits
        self.cluster_round = 0  # of the cluster's barrier, at which it arrived last
        self.active = np.ones(LANES, np.bool_)

    def predicate(self, text: str) -> np.ndarray:
        return self.register(text) if text.startswith("%") else np.full(LANES, text != "0")

    def register(self, name: str) -> np.ndarray:
        if name not in self.registers:
            prefix = re.match(r"%[a-z]+", name)[0]
            self.registers[name] = np.zeros(LANES, _PREFIXES[prefix])
        return self.registers[name]

    def value(self, text: str, kind: str) -> np.ndarray:
        """An operand's bits as values of a NumPy type."""
        if text.startswith("%") and text in _SPECIAL:
            return np.full(LANES, 0, "u4").astype(kind) + np.asarray(_SPECIAL[text](self), "u4").astype(kind)
        if text.startswith("%"):
            held = self.register(text)
            return (
                held
                if held.dtype == np.bool_
                else held.view(kind)
                if held.dtype.itemsize == np.dtype(kind).itemsize
                else held.astype(kind)
            )
        if text.startswith("0f"):
            return np.full(LANES, int(text[2:], 16), "u4").view(kind)
        if text == "__dynamic_shmem__0":
            return np.full(LANES, (self.block.rank << 24) + SHARED_AT, "u4").astype(kind)
        if "_param_" in text:
            return np.full(LANES, PARAMETER + (int(text.rsplit("_", 1)[1]) << 16), "u8")
        number = int(text.removesuffix("U"), 0)
        return (
            np.full(LANES, number & ((1 << (8 * np.dtype(kind).itemsize)) - 1), "u8")
            .astype("u" + kind[1:])
            .view(kind)
            if kind[0] != "f"
            else np.full(LANES, number, kind)
        )

    def write(self, name: str, values: Any) -> None:
        if name == "_":
            return
        held = self.register(name)
        values = np.asarray(values)
        if values.dtype != held.dtype:
            values = (
                values.view(held.dtype)
                if values.dtype.itemsize == held.dtype.itemsize and held.dtype != np.bool_
                else values.astype(held.dtype)
            )
        np.copyto(held, np.broadcast_to(values, LANES), where=self.active)

    def addresses(self, text: str) -> np.ndarray:
        base, offset = _base_and_offset(text)
        if "_param_" in base:
            start = self.value(base, "u8")
        else:
            start = self.register(base).astype("u8") if base.startswith("%") else self.value(base, "u8")
        return start + offset

    def lanes(self) -> Iterator[int]:
        return iter(np.flatnonzero(self.active))

    def run(self) -> Iterator[None]:
        code, end = self.cluster.program.code, len(self.cluster.program.code)
        while True:
            pc = int(self.pcs.min())
            if pc >= end:
                return
            at = self.pcs == pc
            instruction = code[pc]
            self.steps += 1
            self.active = at
            if instruction.guard:
                condition = self.value(instruction.guard.lstrip("!"), "u1")
                self.active = at & (~condition if instruction.guard.startswith("!") else condition)
            name = instruction.name
            if name in ("bra", "bra.uni"):
                self.pcs[at] = pc + 1
                self.pcs[self.active] = self.cluster.program.labels[instruction.operands[0]]
                continue
            if name == "ret":
                self.pcs[at] = pc + 1
                self.pcs[self.active] = end
                continue
            if self.active.any():
                if name in _WAITS:
                    while not _WAITS[name](self, *instruction.operands):
                        self.steps -= 0
                        yield
                        self.active = at
                    yield
                    self.active = at
                else:
                    execute(self, instruction)
            self.pcs[at] = pc + 1


_SPECIAL: dict[str, Callable[[Warp], Any]] = {
    "%tid.x": lambda warp: warp.number * LANES + np.arange(LANES),
    "%cluster_ctarank": lambda warp: warp.block.rank,
    "%cluster_nctarank": lambda warp: len(warp.cluster.blocks),
    "%laneid": lambda warp: np.arange(LANES),
    "%clusterid.x": lambda warp: warp.cluster.index,
    "%nclusterid.x": lambda warp: warp.cluster.grid // len(warp.cluster.blocks),
    "%ctaid.x": lambda warp: warp.cluster.index * len(warp.cluster.blocks) + warp.block.rank,
    "%nctaid.x": lambda warp: warp.cluster.grid,
}


@functools.cache
def _base_and_offset(text: str) -> tuple[str, np.uint64]:
    """The base and the offset of an address such as [%rd1+16]. A negative offset is given modulo 2**64."""
    base, sign, digits = re.match(r"([^+-]+)([+-]?)(\d*)", text.strip("[]")).groups()
    return base, np.uint64(int(f"{sign}{digits or 0}") % (1 << 64))


def _try_wait(warp: Warp, address: str, parity: str) -> bool:
    at = int(warp.addresses(address)[warp.active][0])
    block, offset = warp.cluster.block_of(at)
    assert block is warp.block, "a thread waits at an mbarrier of another block"
    return block.barriers[offset].phase != int(warp.value(parity, "u4")[warp.active][0]) & 1


def _named(warp: Warp, number: str, threads: str = "") -> bool:
    expected = (int(threads) if threads else warp.cluster.program.threads) // LANES
    key = int(number)
    state, mine = warp.block.rounds, warp.rounds
    if key not in mine:
        assert warp.active.all()
        mine[key] = state[key]
        warp.block.named[key].add(warp.number)
        if len(warp.block.named[key]) == expected:
            warp.block.named[key] = set()
            state[key] += 1
    if state[key] == mine[key]:
        return False
    del mine[key]
    return True


def _cluster_wait(warp: Warp, *_: str) -> bool:
    return warp.cluster_round < warp.cluster.rounds


_WAITS: dict[str, Callable[..., bool]] = {
    "wait.parity": _try_wait,
    "bar.sync": _named,
    "barrier.cluster.wait": _cluster_wait,
}
