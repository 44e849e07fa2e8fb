"""Runs the PTX of kernels in CuTe-DSL on the host: warps, tensor maps, mbarriers, tensor memory and MMAs as
the PTX ISA defines them. It knows the instructions that these kernels have; another one is an error.

A TMA load writes at once, as early as it may. MMAs, and the arrivals that follow them, wait: until nothing
else can go on (`late`), or at random. So a barrier that is lacking shows in the result.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

LANES = 32
PARAMETER, GLOBAL = 1 << 60, 1 << 40  # addresses of parameters, and of global memory
SHARED_AT = 1024  # the first byte of dynamic shared memory
_TYPES = {
    "b16": "u2",
    "u16": "u2",
    "b32": "u4",
    "u32": "u4",
    "s32": "i4",
    "f32": "f4",
    "b64": "u8",
    "u64": "u8",
    "s64": "i8",
}
_PREFIXES = {"%p": np.bool_, "%rs": np.uint16, "%r": np.uint32, "%rd": np.uint64}


class StuckError(Exception):
    """No warp can go on."""


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
        self.named: dict[int, set[int]] = defaultdict(set)
        self.warps: list[Warp] = []


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
        self.waiting: list[
            Callable[[], None]
        ] = []  # MMAs and arrivals that are issued and not done, in order
        self.arrived: set[tuple[int, int]] = set()
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
        for each in self.waiting:
            each()
        assert all(block.columns == 0 for block in self.blocks), "tensor memory was not given back"

    def block_of(self, address: int) -> tuple[Block, int]:
        return self.blocks[address >> 24], address & 0xFFFFFF


@dataclass
class Instruction:
    text: str
    name: str
    operands: list[str]
    guard: str = ""  # a predicate, with ! if negated
    run: Any = None


def _split(text: str) -> list[str]:
    """The operands of an instruction: what commas outside of brackets divide."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


class Program:
    """The instructions of a kernel's PTX."""

    def __init__(self, ptx: str) -> None:
        self.threads = int(re.search(r"\.reqntid (\d+)", ptx)[1])
        self.entry = re.search(r"\.visible \.entry (\w+)", ptx)[1]
        ptx = re.sub(
            r"\{\s*\.reg \.pred\s+P1;\s*LAB_WAIT:\s*mbarrier\.try_wait\.parity\.shared\.b64 P1, "
            r"(\[.*?\]), (\S+), \d+;.*?DONE:\s*\}",
            r"wait.parity \1, \2;",
            ptx,
            flags=re.DOTALL,
        )
        ptx = re.sub(
            r"\{\s*\.reg \.b8 a, b, c, d;\s*((?:cvt\.rn\.satfinite\.e2m1x2\.f32 [^;]*;\s*){4})"
            r"mov\.b32 (%r\d+), \{a, b, c, d\};\s*\}",
            lambda match: f"e2m1x8 {match[2]}, {', '.join(re.findall(r'%r[0-9]+', match[1]))};",
            ptx,
        )
        body = ptx[ptx.index("{", ptx.index(".reqntid")) + 1 : ptx.rindex("}")]
        body = re.sub(r"//[^\n]*", "", body)
        self.code: list[Instruction] = []
        self.labels: dict[str, int] = {}
        for part in re.split(r"(?<=[;:])\s*\n|;", body):
            text = part.strip()
            while match := re.match(r"(\$?\w+):\s*", text):
                self.labels[match[1]] = len(self.code)
                text = text[match.end() :]
            text = text.rstrip(";").strip()
            if not text or text.startswith("."):
                continue
            guard = ""
            if match := re.match(r"@(!?%p\d+)\s+", text):
                guard, text = match[1], text[match.end() :]
            name, _, rest = text.partition("\t") if "\t" in text else text.partition(" ")
            self.code.append(Instruction(text, name.strip(), _split(rest), guard))


class Warp:
    """Thirty-two threads in lock step: those whose next instruction is the earliest run."""

    def __init__(self, cluster: Cluster, block: Block, number: int) -> None:
        self.cluster, self.block, self.number = cluster, block, number
        self.pcs = np.zeros(LANES, np.int64)
        self.registers: dict[str, np.ndarray] = {}
        self.steps = 0
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
        number = int(text, 0)
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
        inner = text.strip("[]")
        base, sign, offset = re.match(r"([^+-]+)([+-]?)(\d*)", inner).groups()
        if "_param_" in base:
            start = self.value(base, "u8")
        else:
            start = self.register(base).astype("u8") if base.startswith("%") else self.value(base, "u8")
        return start + np.uint64(int(offset)) if sign == "+" else start - np.uint64(int(offset or 0))

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
                    _execute(self, instruction)
            self.pcs[at] = pc + 1


_SPECIAL: dict[str, Callable[[Warp], Any]] = {
    "%tid.x": lambda warp: warp.number * LANES + np.arange(LANES),
    "%cluster_ctarank": lambda warp: warp.block.rank,
    "%laneid": lambda warp: np.arange(LANES),
    "%clusterid.x": lambda warp: warp.cluster.index,
    "%ctaid.x": lambda warp: warp.cluster.index * len(warp.cluster.blocks) + warp.block.rank,
    "%nctaid.x": lambda warp: warp.cluster.grid,
}


# What waits.
def _try_wait(warp: Warp, address: str, parity: str) -> bool:
    at = int(warp.addresses(address)[warp.active][0])
    block, offset = warp.cluster.block_of(at)
    assert block is warp.block, "a thread waits at an mbarrier of another block"
    return block.barriers[offset].phase != int(warp.value(parity, "u4")[warp.active][0]) & 1


def _named(warp: Warp, number: str, threads: str = "") -> bool:
    expected = (int(threads) if threads else warp.cluster.program.threads) // LANES
    key = int(number)
    state = warp.block.__dict__.setdefault("rounds", defaultdict(int))
    mine = warp.__dict__.setdefault("rounds", {})
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
    state = warp.cluster.__dict__.setdefault("cluster_round", 0)
    return warp.__dict__["cluster_arrived"] < state


def _cluster_arrive(warp: Warp, name: str, operands: list[str]) -> None:
    cluster = warp.cluster
    warp.__dict__["cluster_arrived"] = cluster.__dict__.setdefault("cluster_round", 0)
    cluster.arrived.add((warp.block.rank, warp.number))
    if len(cluster.arrived) == sum(len(block.warps) for block in cluster.blocks):
        cluster.arrived = set()
        cluster.__dict__["cluster_round"] += 1


_WAITS: dict[str, Callable[..., bool]] = {
    "wait.parity": _try_wait,
    "bar.sync": _named,
    "barrier.cluster.wait": _cluster_wait,
}


# Swizzles, TMA, MMAs.
def _swizzled(addresses: np.ndarray, line: int) -> np.ndarray:
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
    return _swizzled(flat, tensor.swizzle) if tensor.swizzle else flat


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


def _tma_load(warp: Warp, name: str, operands: list[str]) -> None:
    multicast, pair = "multicast" in name, "cta_group::2" in name
    target, source, barrier = operands[:3]
    for lane in warp.lanes():
        at, signal = int(warp.addresses(target)[lane]), int(warp.addresses(barrier)[lane])
        map_register, coordinates = re.match(r"\[(%rd\d+), \{(.*)\}\]", source).groups()
        index = (int(warp.register(map_register)[lane]) - PARAMETER) >> 16
        tensor: TensorMap = warp.cluster.parameters[index]
        place = tuple(int(warp.value(text.strip(), "i4")[lane]) for text in coordinates.split(","))
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


def _tma_store(warp: Warp, name: str, operands: list[str]) -> None:
    for lane in warp.lanes():
        map_register, coordinates = re.match(r"\[(%rd\d+), \{(.*)\}\]", operands[0]).groups()
        index = (int(warp.register(map_register)[lane]) - PARAMETER) >> 16
        tensor: TensorMap = warp.cluster.parameters[index]
        place = tuple(int(warp.value(text.strip(), "i4")[lane]) for text in coordinates.split(","))
        _, offset = warp.cluster.block_of(int(warp.addresses(operands[1])[lane]))
        data = warp.block.shared[_box_addresses(tensor, offset)]
        for i, count, held in _rows(tensor, place, warp.cluster.memory):
            held[:] = data[i, :count]


class Sums(NamedTuple):
    """The sums of an MMA: columns of tensor memory."""

    first: int
    count: int
    accumulate: bool  # the product is added to what they hold


Operand: TypeAlias = tuple[int, str]  # a descriptor of shared memory, and the type of the elements


def _operand(block: Block, operand: Operand, rows: int) -> np.ndarray:
    """The rows of 32 bytes of k of a K-major operand in shared memory, as float64."""
    descriptor, kind = operand
    start, stride = (descriptor & 0x3FFF) << 4, ((descriptor >> 32) & 0x3FFF) << 4
    assert descriptor >> 61 == 2, "expected the swizzle of 128 bytes"
    assert descriptor >> 46 & 7 == 1, "expected version 1 of descriptors"
    assert descriptor >> 49 & 7 == 0, "expected a base offset of 0"
    row, byte = np.arange(rows)[:, None], np.arange(32)[None]
    raw = block.shared[_swizzled(start + row % 8 * 128 + row // 8 * stride + byte, 128)]
    return decode(raw, kind)


def decode(raw: np.ndarray, kind: str) -> np.ndarray:
    """Bytes [row, byte] as numbers [row, element]."""
    raw = np.ascontiguousarray(raw)
    if kind == "bf16":
        return (raw.view("u2").astype("u4") << 16).view("f4").astype("f8")
    if kind == "f16":
        return raw.view("f2").astype("f8")
    if kind == "tf32":
        return (raw.view("u4") & 0xFFFFE000).view("f4").astype("f8")
    if kind == "s8":
        return raw.view("i1").astype("f8")
    if kind == "e8m0":
        return np.ldexp(1.0, raw.astype("i4") - 127)
    if kind == "e2m1":
        codes = np.stack([raw & 15, raw >> 4], -1).reshape(*raw.shape[:-1], -1)
        return np.array(_E2M1)[codes & 7] * np.where(codes & 8, -1.0, 1.0)
    mantissa, bias = (3, 7) if kind == "e4m3" else (2, 15)
    sign = np.where(raw & 0x80, -1.0, 1.0)
    exponent, fraction = (raw & 0x7F) >> mantissa, raw & ((1 << mantissa) - 1)
    normal = np.ldexp(1 + fraction / (1 << mantissa), exponent.astype("i4") - bias)
    return sign * np.where(exponent == 0, np.ldexp(fraction / (1 << mantissa), 1 - bias), normal)


_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_KINDS = {
    "f16": {0: "f16", 1: "bf16"},
    "f8f6f4": {0: "e4m3", 1: "e5m2"},
    "tf32": {2: "tf32"},
    "i8": {1: "s8"},
    "mxf4nvf4": {1: "e2m1"},
    "mxf4": {1: "e2m1"},
    "mxf8f6f4": {0: "e4m3", 1: "e5m2"},
}


def _mma(warp: Warp, name: str, operands: list[str]) -> None:
    pair = 2 if "cta_group::2" in name else 1
    kind = re.search(r"kind::(\w+)", name)[1]
    for lane in warp.lanes():
        address = int(warp.addresses(operands[0])[lane])
        a, b = (int(warp.value(text, "u8")[lane]) for text in operands[1:3])
        word = int(warp.value(operands[3], "u4")[lane])
        accumulate = bool(warp.value(operands[-1], "u1")[lane])
        scales = None
        if ".block_scale" in name:
            scales = _scales(warp, name, lane, operands, word)
            word = word & ~(3 << 4 | 1 << 23 | 3 << 29) | 1 << 4
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
            partial(_multiply, pairs, (a, type_a), (b, type_b), Sums(column, n, accumulate), scales)
        )


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
        assert first + rows // 32 <= block.columns, "scale factors outside of the allocated columns"
        words = block.tensor[:, first : first + rows // 32].reshape(4, 32, -1)
        assert (words == words[0]).all(), "the quarters of the lanes hold other scale factors"
        raw = words[0].T.reshape(-1, 1).copy().view("u1")[:, self.bytes[side] :][:, : self.count]
        return np.repeat(decode(raw, self.kind), elements // self.count, 1)


def _scales(warp: Warp, name: str, lane: int, operands: list[str], word: int) -> Scales:
    addresses = [int(warp.addresses(text)[lane]) for text in operands[4:6]]
    firsts = word >> 29 & 3, word >> 4 & 3
    assert [address >> 30 for address in addresses] == [*firsts], "addresses and the descriptor disagree"
    assert not any(address >> 16 & 0x3FFF for address in addresses), "expected lane 0"
    kind = re.search(r"kind::(\w+)", name)[1]
    count = {"mxf4nvf4": 4 if "block16" in name else 2, "mxf4": 2, "mxf8f6f4": 1}[kind]
    columns = addresses[0] & 0xFFFF, addresses[1] & 0xFFFF
    return Scales(columns, firsts, count, "e8m0" if word >> 23 & 1 else "e4m3")


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


def _execute(warp: Warp, instruction: Instruction) -> None:
    name, operands = instruction.name, instruction.operands
    for prefix, does in _BY_PREFIX.items():
        if name.startswith(prefix):
            does(warp, name, operands)
            return
    head, *_, kind = name.split(".")
    if name.startswith("max.NaN.xorsign.abs."):
        words = (warp.value(text, "u4") for text in operands[1:])
        warp.write(operands[0], _larger_pairs(*words, infinity=0x7F80 if kind == "bf16x2" else 0x7C00))
    elif kind == "pred":
        values = [warp.predicate(text) for text in operands[1:]]
        warp.write(operands[0], _PREDICATES[head](*values))
    elif name in _NUMBERS:
        values = [warp.value(text, _TYPES[kind]) for text in operands[1:]]
        warp.write(operands[0], _NUMBERS[name](*values))
    else:
        raise NotImplementedError(instruction.text)


def _nothing(warp: Warp, name: str, operands: list[str]) -> None:
    """What orders accesses here already, or waits for stores that are done."""


def _move(warp: Warp, name: str, operands: list[str]) -> None:
    target, source = operands
    if source.startswith("{"):
        low, high = (warp.value(text.strip(), "u4").astype("u8") for text in source.strip("{}").split(","))
        warp.write(target, low | high << np.uint64(32))
    elif target.startswith("{"):
        low, high = (text.strip() for text in target.strip("{}").split(","))
        value = warp.value(source, "u8")
        warp.write(low, (value & np.uint64(0xFFFFFFFF)).astype("u4"))
        warp.write(high, (value >> np.uint64(32)).astype("u4"))
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
    warp.write(operands[0], _TESTS[test](a, b))


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
    warp.write(operands[0], _wide(warp.register(operands[1]), kind) + warp.value(operands[2], "f4"))


def _wide(small: np.ndarray, kind: str) -> np.ndarray:
    return (
        small.view("f2").astype("f4") if kind == "f16" else (small.astype("u4") << np.uint32(16)).view("f4")
    )


def _fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return (a.astype("f8") * b + c).astype("f4")


def _fma_down(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    exact, rounded = a.astype("f8") * b + c, _fma(a, b, c)
    return np.where(rounded > exact, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    whole, by = a.astype("i8"), np.where(b == 0, 1, b).astype("i8")
    return (np.abs(whole) // np.abs(by) * np.sign(whole) * np.sign(by)).astype("i4")


def _wide_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype("i8") * b


def _saturated(values: np.ndarray) -> np.ndarray:
    """Clamped to [0, 1]; NaN becomes 0."""
    return np.where(values > 0, np.minimum(values, np.float32(1)), np.float32(0)).astype("f4")


def _fma_exact(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c, rounded once: the sum of the exact product and c is rounded to odd first."""
    product, c = a.astype("f8") * b, c.astype("f8")
    total = product + c
    rest = (product - (total - c)) + (c - (total - (total - c)))
    inexact = np.isfinite(total) & (rest != 0)
    towards = np.where((rest > 0) == (total > 0), 1, -1)
    bits = total.view("i8")
    odd = np.where(inexact & (bits & 1 == 0), np.where(towards > 0, bits + 1, bits - 1), bits)
    return odd.view("f8").astype("f4")


def _larger(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(a) | np.isnan(b), np.float32(np.nan), np.maximum(a, b))


def _larger_pairs(a: np.ndarray, b: np.ndarray, infinity: int) -> np.ndarray:
    """The larger magnitudes of two pairs of 16 bits; NaN if either is. Signs mean nothing."""
    result = np.zeros(LANES, "u4")
    for shift in (np.uint32(0), np.uint32(16)):
        first, second = (word >> shift & np.uint32(0x7FFF) for word in (a, b))
        largest = np.maximum(first, second)
        result |= np.where(largest > infinity, np.uint32(0x7FFF), largest).astype("u4") << shift
    return result


def _product_high(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a.astype("u8") * b.astype("u8") >> np.uint64(32)).astype("u4")


_TESTS: dict[str, Callable[..., np.ndarray]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "ltu": lambda a, b: ~(a >= b),
    "neu": lambda a, b: ~(a == b),
}
_PREDICATES: dict[str, Callable[..., np.ndarray]] = {
    "mov": np.copy,
    "not": np.logical_not,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}
_NUMBERS: dict[str, Callable[..., np.ndarray]] = {
    **{f"add.{kind}": np.add for kind in ("s32", "s64", "f32")},
    **{f"sub.{kind}": np.subtract for kind in ("s32", "s64", "f32")},
    **dict.fromkeys(("mul.f32", "mul.lo.s32", "mul.lo.s64"), np.multiply),
    **{f"mad.lo.{kind}": lambda a, b, c: a * b + c for kind in ("s32", "s64")},
    **{f"min.{kind}": np.minimum for kind in ("s32", "s64")},
    **{f"and.{kind}": np.bitwise_and for kind in ("b32", "b64")},
    **{f"or.{kind}": np.bitwise_or for kind in ("b32", "b64")},
    "xor.b32": np.bitwise_xor,
    "not.b32": np.invert,
    "max.s32": np.maximum,
    "min.relu.s32": lambda a, b: np.maximum(np.minimum(a, b), 0),
    "max.NaN.f32": _larger,
    "mul.rn.f32": np.multiply,
    "mul.rn.sat.f32": lambda a, b: _saturated(a * b),
    "add.rn.f32": np.add,
    "mul.hi.u32": _product_high,
    "rem.s32": lambda a, b: (a - b * _divide(a, b)).astype("i4"),
    "max.f32": np.fmax,
    "neg.f32": np.negative,
    "neg.s32": np.negative,
    "abs.f32": np.abs,
    "copysign.f32": lambda a, b: np.copysign(b, a),
    "div.s32": _divide,
    "div.rn.f32": np.divide,
    "mul.wide.s32": _wide_product,
    "fma.rn.f32": _fma_exact,
    "fma.rn.sat.f32": lambda a, b, c: _saturated(_fma_exact(a, b, c)),
    "fma.rm.f32": _fma_down,
    "ex2.approx.ftz.f32": np.exp2,
}


def _convert(warp: Warp, name: str, operands: list[str]) -> None:
    if name == "cvt.rn.bf16x2.f32":
        high, low = (_bf16(warp.value(text, "f4")) for text in operands[1:])
        return warp.write(operands[0], high.astype("u4") << np.uint32(16) | low)
    if name == "cvt.rn.f16x2.f32":
        high, low = (warp.value(text, "f4").astype("f2").view("u2") for text in operands[1:])
        return warp.write(operands[0], high.astype("u4") << np.uint32(16) | low)
    if name == "cvt.rn.satfinite.e4m3x2.f32":
        high, low = (_e4m3(warp.value(text, "f4")) for text in operands[1:])
        return warp.write(operands[0], high << np.uint16(8) | low)
    if name == "cvt.rn.f16x2.e4m3x2":
        pair = warp.value(operands[1], "u2")
        halves = (_half_of_e4m3(pair >> np.uint16(shift) & np.uint16(0xFF)) for shift in (0, 8))
        low, high = (half.astype("u4") for half in halves)
        return warp.write(operands[0], high << np.uint32(16) | low)
    if name == "cvt.rzi.u32.f32":
        return warp.write(operands[0], np.trunc(warp.value(operands[1], "f4")).astype("u4"))
    if name == "cvt.rn.bf16.f32":
        return warp.write(operands[0], _bf16(warp.value(operands[1], "f4")))
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


def _nearest(size: np.ndarray, values: list[float]) -> np.ndarray:
    """The index of the value that is nearest to each magnitude: of two the even one, at most the last."""
    bounds = (np.array(values[1:]) + np.array(values[:-1])) / 2
    reached = np.where(np.arange(len(bounds)) % 2 == 0, size[:, None] > bounds, size[:, None] >= bounds)
    return reached.sum(axis=1)


def _e4m3(values: np.ndarray) -> np.ndarray:
    grid = list(decode(np.arange(0x7F, dtype="u1"), "e4m3"))
    code = np.where(np.isnan(values), 0x7F, _nearest(np.abs(values).astype("f8"), grid))
    return (code | np.where(np.signbit(values) & ~np.isnan(values), 0x80, 0)).astype("u2")


def _half_of_e4m3(codes: np.ndarray) -> np.ndarray:
    halves = decode(codes.astype("u1"), "e4m3").astype("f2")
    return np.where(codes & 0x7F == 0x7F, np.float16(np.nan), halves).view("u2")


def _convert_to_e2m1(warp: Warp, name: str, operands: list[str]) -> None:
    """Eight floats, of each two of which the second comes first."""
    target, *sources = operands
    word = np.zeros(LANES, "u4")
    for i, text in enumerate(sources):
        values = warp.value(text, "f4")
        code = _nearest(np.abs(values).astype("f8"), [0, 0.5, 1, 1.5, 2, 3, 4, 6])
        code = np.where(np.isnan(values), 7, code | np.where(np.signbit(values), 8, 0))
        word |= code.astype("u4") << np.uint32(4 * (i ^ 1))
    warp.write(target, word)


def _bf16(values: np.ndarray) -> np.ndarray:
    word = values.view("u4")
    rounded = (word + np.uint32(0x7FFF) + (word >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(0x7FFF), rounded).astype("u2")


def _access(warp: Warp, name: str, operands: list[str]) -> None:
    head, space, *rest = name.replace(".volatile", "").split(".")
    kind = {"u8": "u1", **_TYPES}[rest[-1]]
    size = np.dtype(kind).itemsize
    place, values = (operands[1], operands[0]) if head == "ld" else (operands[0], operands[1])
    registers = [text.strip() for text in values.strip("{}").split(",")]
    starts = warp.addresses(place)
    if space == "param":
        index, offset = (int(starts[0]) - PARAMETER) >> 16, int(starts[0]) & 0xFFFF
        data = warp.cluster.parameters[index]
        return warp.write(registers[0], np.full(LANES, np.frombuffer(data, kind, 1, offset)[0]))
    out = {register: np.zeros(LANES, kind) for register in registers}
    for lane in warp.lanes():
        start = int(starts[lane])
        assert start % (size * len(registers)) == 0, f"misaligned: {name}"
        if space == "shared":
            owner, offset = warp.cluster.block_of(start)
            assert owner is warp.block
            memory = warp.block.shared[offset : offset + size * len(registers)]
        else:
            memory = warp.cluster.memory.at(start, size * len(registers))
        for i, register in enumerate(registers):
            part = memory[i * size : (i + 1) * size]
            if head == "ld":
                out[register][lane] = part.view(kind)[0]
            else:
                part[:] = warp.value(register, f"u{max(4, size)}")[lane : lane + 1].view(np.uint8)[:size]
    if head == "ld":
        for register, held in out.items():
            warp.write(register, held)
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


def _tensor_memory(warp: Warp, name: str, operands: list[str]) -> None:
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


_BY_PREFIX: dict[str, Callable[[Warp, str, list[str]], None]] = {
    "tcgen05.fence": _nothing,
    "tcgen05.": _tensor_memory,
    "cp.async.bulk.tensor.3d.global.": _tma_store,
    "cp.async.bulk.tensor.3d.shared::": _tma_load,
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
