"""Runs the PTX of a block-scaled kernel of tcgen05 on the machine of ptx_machine.py, and compares D with the
product. Scale factors are in the 128x4 layout of blockscaled_gemm/args.h."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from cute_dsl_ptx import ptx_of
from ptx_machine import Launch
from ptx_memory import Memory, TensorMap
from ptx_numbers import decode
from ptx_program import Program

from tilewright.declarations.table import KernelRecord, Table
from tilewright.families.blockscaled_gemm.problem import BLOCK
from tilewright.families.gemm.problem import ACTIVATIONS
from tilewright.formats.types import TYPES, bits, bytes_of

TABLES = [
    Table.read(Path(__file__).parents[2] / "generated" / f"{arch}_blockscaled_gemm_cute" / "table.json")
    for arch in ("sm100", "sm103", "sm110")
]
FILLED = 0x77  # bytes of D before a launch
ALPHA, BETA = 1.25, 0.75
ELEMENTS = {"nvfp4": "e2m1", "mxfp4": "e2m1", "mxfp8": "e4m3"}
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}
ACTIVATED = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def table_of(name: str) -> Table:
    """The table that has a kernel."""
    return next(table for table in TABLES if name in table)


@dataclass(frozen=True)
class Case:
    """A product, in the caller's terms."""

    m: int
    n: int
    k: int
    batch: int = 1
    c: bool = False
    down: int = 1
    splits: int = 1
    bias: bool = False
    activation: str = "none"
    alpha: float = ALPHA
    saturates: bool = False  # whether elements of D are above the largest FP8


class Operand(NamedTuple):
    """A matrix of a batch in memory, and what its elements are times their scale factors."""

    data: np.ndarray[Any, Any]
    scales: np.ndarray[Any, Any]
    atoms: tuple[int, int]  # along the rows, along k
    values: np.ndarray[Any, Any]


def operand(kind: str, rows: int, case: Case, random: np.random.Generator) -> Operand:
    """Random elements and scale factors, as they lie in memory."""
    element, block = ELEMENTS[kind], BLOCK[kind]
    if bits(kind) == 4:
        data = random.integers(0, 256, (case.batch, rows, case.k // 2)).astype("u1")
    else:
        data = random.integers(0x30, 0x38, (case.batch, rows, case.k)).astype("u1")
        data |= (random.integers(0, 2, data.shape) << 7).astype("u1")
    columns = -(-case.k // block)
    exact = TYPES[kind].scale == "ue8m0"
    codes = (
        random.integers(124, 130, (case.batch, rows, columns))
        if exact
        else (random.integers(0x30, 0x40, (case.batch, rows, columns)))
    )
    down, along = -(-rows // 128), -(-columns // 4)
    scales = np.zeros((case.batch, down * along * 512), "u1")
    r, c = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    scales[:, ((r // 128) * along + c // 4) * 512 + r % 32 * 16 + r % 128 // 32 * 4 + c % 4] = codes
    factors = decode(codes.astype("u1"), "e8m0" if exact else "e4m3")
    values = decode(data, element) * np.repeat(factors, block, -1)[..., : case.k]
    return Operand(data, scales, (down, along), values)


def added(d: str) -> str:
    """The type of C and the bias beside a D."""
    return "bf16" if d in LARGEST else d


def rounded(values: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    """FP32 numbers as elements of a type of C and the bias, towards zero."""
    return {"bf16": (values.view("u4") >> 16).astype("u2"), "f16": values.astype("f2"), "f32": values}[kind]


def values_of(data: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    if kind == "f32":
        return data.view("f4").astype("f8")
    raw = np.ascontiguousarray(data).view("u1").reshape(*data.shape[:-1], -1)
    return decode(raw, kind)


def run(program: str, record: KernelRecord, case: Case, *, late: bool) -> None:
    """Launches as blockscaled_gemm/cute_dsl_host.hpp does, and compares D."""
    config, random, memory = record.config, np.random.default_rng(3), Memory()
    (tile_m, tile_n, tile_k), (high, wide) = config["tile"], config["cluster"]
    stages = 3 if tile_k == 768 else 1  # of a tile
    tile_k //= stages
    kind, swapped, size_d = config["a"], config["swap_ab"], bytes_of(config["d"])
    sides = [(operand(kind, rows, case, random), rows) for rows in (case.m, case.n)]
    expected = case.alpha * np.einsum("bmk,bnk->bmn", sides[0][0].values, sides[1][0].values)
    if swapped:
        sides.reverse()
    stored = 32 if config["store"] == "direct_256" else 16
    pitch = case.n + (3 if swapped else stored // size_d)
    d = np.full((case.batch, case.m, pitch * size_d), FILLED, "u1").view(f"u{size_d}")
    c = random.standard_normal((case.batch, case.m, case.n)).astype("f4")
    bias = random.standard_normal(case.n).astype("f4")
    c, bias = (rounded(values, added(config["d"])) for values in (c, bias))

    def map_of(side: tuple[Operand, int], box: int) -> tuple[TensorMap, bytes]:
        own, rows = side
        row = case.k * bits(kind) // 8
        tensor = TensorMap(
            memory.add(own.data), bits(kind) / 8, (case.k, rows, case.batch), (row, row * rows),
            (tile_k, box), 128,
        )  # fmt: skip
        return tensor, struct.pack("3i", rows, case.k, case.batch)

    def map_of_scales(side: tuple[Operand, int], rows: int) -> tuple[TensorMap, bytes]:
        """Words of 8 bytes: 64 an atom."""
        down, along = side[0].atoms
        tensor = TensorMap(
            memory.add(side[0].scales), 8, (along * 64, down, case.batch), (along * 512, down * along * 512),
            (tile_k // BLOCK[kind] // 4 * 64, -(-rows // 128)), 0,
        )  # fmt: skip
        return tensor, struct.pack("3i", down, along * 64, case.batch)

    address, row, subtile = memory.add(d), pitch * size_d, 64 if size_d == 1 else 32
    rows, columns = (case.n, case.m) if swapped else (case.m, case.n)
    blocks_m, blocks_n = -(-rows // (tile_m * high)), -(-columns // (tile_n * wide))
    integers = (
        -(-case.k // (tile_k * stages)) * stages, blocks_m, blocks_n,
        blocks_m * blocks_n * case.batch, 2, case.down,
    )  # fmt: skip
    parameters: list[Any] = [
        *map_of(sides[0], tile_m // wide), *map_of(sides[1], tile_n // high),
        *map_of_scales(sides[0], tile_m), *map_of_scales(sides[1], tile_n),
        TensorMap(
            address, size_d, (case.n, case.m, case.batch), (row, row * case.m), (subtile, tile_m),
            subtile * size_d,
        ),
        struct.pack("3i", case.m, case.n, case.batch),
        *(struct.pack("q", value) for value in (memory.add(c) if case.c else 0, case.n, case.m * case.n)),
        struct.pack("f", BETA if case.c else 0.0),
        struct.pack("q", memory.add(np.array([case.alpha], "f4"))),
        *(struct.pack("i", value) for value in integers),
        *(struct.pack("q", value) for value in (address, pitch, pitch * case.m)),
        *(struct.pack("i", value) for value in (case.m, case.n)),
        struct.pack("q", memory.add(bias) if case.bias else 0),
        struct.pack("i", ACTIVATIONS.index(case.activation)),
    ]  # fmt: skip
    assert ("cp.async.bulk.prefetch.tensor" in program) == (config["prefetch"] == "tma")
    # One cluster computes every block.
    blocks = high * wide * case.splits
    Launch(Program(program), blocks, 1, record.facts["smem_bytes"], memory, parameters, late).run()

    expected += BETA * values_of(c, added(config["d"])) if case.c else 0
    expected += values_of(bias, added(config["d"])) if case.bias else 0
    expected = ACTIVATED[case.activation](expected)
    if largest := LARGEST.get(config["d"]):
        assert (np.abs(expected) > largest).any() == case.saturates
        expected = expected.clip(-largest, largest)
    actual = values_of(d, config["d"])[..., : case.n]
    error = np.abs(actual - expected) / np.maximum(np.abs(expected), np.abs(expected).mean())
    most = {"bf16": 6e-3, "f16": 1e-3, "f32": 1e-5, "e4m3": 1 / 16 + 1e-5, "e5m2": 1 / 8 + 1e-5}
    assert error.max() < most[config["d"]]
    assert (d[..., case.n :].copy().view("u1") == FILLED).all()


def compile_and_run(name: str, case: Case) -> None:
    """Compiles a kernel, launches it with MMAs that finish late, and compares D."""
    table = table_of(name)
    run(ptx_of(table, table[name]), table[name], case, late=True)
