"""Kernels of tcgen05 compute the product: their PTX runs here, instruction by instruction, on a machine of
the PTX ISA (ptx_machine.py), because no GPU of theirs is at hand."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cute_dsl_ptx import ptx_of
from ptx_machine import Launch, StuckError
from ptx_memory import Memory, TensorMap
from ptx_numbers import decode
from ptx_program import Program

from tilewright.compile.cute_dsl import installed
from tilewright.declarations.table import KernelRecord, Table
from tilewright.families.gemm.problem import ACTIVATIONS, ADDENDS
from tilewright.formats.types import bytes_of

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(bool(installed.lacking()), reason=f"a kernel here {installed.lacking()}"),
]

ROOT = Path(__file__).parents[2]
TABLE = Table.read(ROOT / "generated" / "sm100_gemm" / "table.json")
FILLED = 0x77  # bytes of D before a launch


@dataclass(frozen=True)
class Case:
    """A product, in the caller's terms."""

    m: int
    n: int
    k: int
    batch: int = 1
    shared_b: bool = False  # one B for all of the batch
    c: str = ""  # types of C and the bias
    bias: str = ""
    activation: str = "none"
    alpha: float = 1.0
    scales: tuple[float, ...] = ()
    swizzle: int = 1
    down: int = 1
    splits: int = 1
    scale_result: float = 0.0  # of a D of FP8; 0: none
    amax: float | None = None  # what it was before


def numbers(kind: str, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Random elements, as they lie in memory."""
    if kind in ("f32", "tf32", "f16", "bf16"):
        values = random.standard_normal(shape).astype("f4")
        if kind == "bf16":
            return (values.view("u4") >> np.uint32(16)).astype("u2")
        return values.astype("f2" if kind == "f16" else "f4")
    if kind == "s8":
        return random.integers(-128, 128, shape).astype("i1")
    exponents = 0x30 if kind == "e4m3" else 0x38  # about 1
    return (random.integers(0, 8, shape) | exponents | random.integers(0, 2, shape) << 7).astype("u1")


def values(data: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    """What elements mean."""
    if kind in ("f32", "s32"):
        return data.view("f4" if kind == "f32" else "i4").astype("f8")
    raw = np.ascontiguousarray(data).view("u1").reshape(*data.shape[:-1], -1)
    return decode(raw, kind)


def run(program: str, record: KernelRecord, case: Case, *, late: bool) -> None:
    """Launches as gemm/cute_dsl_host.hpp does, and compares D."""
    config, random = record.config, np.random.default_rng(3)
    (tile_m, tile_n, tile_k), (high, wide) = config["tile"], config["cluster"]
    types, swapped, memory = (config["a"], config["b"], config["d"]), config["swap_ab"], Memory()
    a = numbers(types[0], (case.batch, case.m, case.k), random)
    b = numbers(types[1], (1 if case.shared_b else case.batch, case.n, case.k), random)
    size, size_d = bytes_of(types[0]), bytes_of(types[2])
    fp8 = size_d == 1
    columns = 64 if fp8 else 32  # that TMA stores at a time
    pitch = case.n + (3 if swapped else 16 // size_d)
    d = np.full((case.batch, case.m, pitch * size_d), FILLED, "u1").view(f"u{size_d}")
    c, bias = (
        numbers(kind, shape, random) if kind else None
        for kind, shape in ((case.c, (case.batch, case.m, case.n)), (case.bias, (case.n,)))
    )

    def operand(data: np.ndarray[Any, Any], box: int) -> tuple[TensorMap, bytes]:
        matrices, rows, k = data.shape
        strides = (k * size, rows * k * size)
        map_of = TensorMap(memory.add(data), size, (k, rows, matrices), strides, (tile_k, box), 128)
        return map_of, struct.pack("3i", rows, k, matrices)

    boxes = (tile_m // wide, tile_n // high)
    maps = [
        operand(data, box) for data, box in zip((a, b), reversed(boxes) if swapped else boxes, strict=True)
    ]
    address = memory.add(d)
    row = pitch * size_d
    maps_d = TensorMap(
        address, size_d, (case.n, case.m, case.batch), (row, row * case.m), (columns, tile_m),
        columns * size_d,
    )  # fmt: skip
    rows, columns = (case.n, case.m) if swapped else (case.m, case.n)
    blocks_m, blocks_n = -(-rows // (tile_m * high)), -(-columns // (tile_n * wide))
    addresses = [memory.add(data) if data is not None else 0 for data in (c, bias)]
    scales = [memory.add(np.array([scale], "f4")) for scale in case.scales] + [0] * (2 - len(case.scales))
    kinds = [ADDENDS.index(kind) if kind else 0 for kind in (case.c, case.bias)]
    beta = 0.75 if case.c else 0.0
    amax = np.array([case.amax or 0.0], "f4")
    result = (
        memory.add(np.array([case.scale_result], "f4")) if case.scale_result else 0,
        0 if case.amax is None else memory.add(amax),
    )
    parameters: list[Any] = [
        *(part for pair in (reversed(maps) if swapped else maps) for part in pair),
        maps_d, struct.pack("3i", case.m, case.n, case.batch),
        *(struct.pack("q", value) for value in (addresses[0], case.n, case.m * case.n)),
        struct.pack("f", case.alpha), struct.pack("f", beta),
        *(struct.pack("q", value) for value in scales),
        *(
            struct.pack("i", value)
            for value in (
                -(-case.k // tile_k), blocks_m, blocks_n, blocks_m * blocks_n * case.batch,
                case.swizzle, case.down,
            )
        ),
        *(struct.pack("q", value) for value in (address, pitch, pitch * case.m, addresses[1])),
        *(struct.pack("i", value) for value in (*kinds, ACTIVATIONS.index(case.activation), case.m, case.n)),
        *(struct.pack("q", value) for value in result),
    ]  # fmt: skip
    # One cluster computes every block.
    blocks = high * wide * case.splits
    Launch(Program(program), blocks, 1, record.facts["smem_bytes"], memory, parameters, late).run()

    product = np.einsum(
        "bmk,xnk->bmn" if case.shared_b else "bmk,bnk->bmn", values(a, types[0]), values(b, types[1])
    )
    expected = case.alpha * math.prod(case.scales) * product
    expected += beta * values(c, case.c) if c is not None else 0
    expected += values(bias[None], case.bias)[0] if bias is not None else 0
    expected = activated(expected, case.activation)
    actual = values(d, types[2])
    assert (d[..., case.n :].copy().view("u1") == FILLED).all()
    if fp8:
        if case.amax is not None:
            np.testing.assert_allclose(amax[0], max(case.amax, np.abs(expected).max()), rtol=1e-5)
        largest, unit = (448, 1 / 16) if types[2] == "e4m3" else (57344, 1 / 8)
        scaled = np.clip(expected * (case.scale_result or 1.0), -largest, largest)
        assert (np.abs(actual[..., : case.n] - scaled) < unit * np.abs(scaled) + 2**-9).all()
        return
    error = np.abs(actual[..., : case.n] - expected) / np.maximum(np.abs(expected), np.abs(expected).mean())
    assert error.max() < {"bf16": 6e-3, "f16": 1e-3, "f32": 1e-5, "s32": 1e-12}[types[2]]


def activated(x: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    if name == "relu":
        return np.maximum(x, 0)
    if name == "gelu":
        return 0.5 * x * (1 + np.vectorize(math.erf)(x * math.sqrt(0.5)))
    return x / (1 + np.exp(-x)) if name == "silu" else x


SOME = "gemm_sm100f_bf16_bf16_f32_bf16_tn_128x64x64_1x1_tcgen05_1sm_act"
PAIR = "gemm_sm100f_bf16_bf16_f32_bf16_tn_128x128x64_2x1_tcgen05_2sm_act"
FEW = "gemm_sm100f_f16_f16_f32_f16_tn_128x16x64_1x1_tcgen05_1sm_swap_act"
FP8 = "gemm_sm100f_e4m3_e5m2_f32_f32_tn_128x128x128_2x1_tcgen05_2sm_act"
TF32 = "gemm_sm100f_tf32_tf32_f32_f32_tn_128x32x32_1x1_tcgen05_1sm_swap_act"
CASES = {
    SOME: Case(
        200, 136, 200, c="f16", bias="bf16", activation="gelu", alpha=1.3, scales=(0.7, 1.9), swizzle=2
    ),
    PAIR: Case(300, 200, 264, batch=2, c="bf16", activation="relu", swizzle=2, down=0),
    FEW: Case(21, 203, 136, batch=2, shared_b=True, c="f32", bias="f32", activation="silu"),
    FP8: Case(280, 136, 400, bias="f16", scales=(0.5,)),
    TF32: Case(37, 131, 100),
}
E4M3 = "gemm_sm100f_e4m3_e4m3_f32_e4m3_tn_128x64x128_1x1_tcgen05_1sm_act"
E5M2 = "gemm_sm100f_e4m3_e4m3_f32_e5m2_tn_128x32x128_1x1_tcgen05_1sm_swap_act"
# Rows and columns outside of D read C and the bias at its edge, which may be larger than any element of D.
OF_FP8 = {
    E4M3: Case(150, 144, 264, batch=2, c="f32", bias="bf16", activation="silu", scale_result=9.0, amax=0.5),
    E5M2: Case(21, 203, 520, c="bf16", bias="f32", alpha=0.3, scale_result=70.0, amax=0.5, splits=2),
}
S8 = "gemm_sm100_s8_s8_s32_s32_tn_128x32x128_1x1_tcgen05_1sm_swap_act"
SPLIT = {
    FEW: Case(21, 203, 520, batch=2, c="f32", bias="bf16", activation="gelu", alpha=1.3, splits=8),
    TF32: Case(37, 131, 200, scales=(0.7,), splits=2),
    S8: Case(40, 130, 1104, splits=4),
}


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_computes_the_product(name: str) -> None:
    record = TABLE[name]
    program = ptx_of(TABLE, record)
    run(program, record, CASES[name], late=True)
    run(program, record, replace(CASES[name], c="", bias="", activation="none"), late=False)


@pytest.mark.parametrize("name", OF_FP8)
def test_a_result_of_fp8_is_scaled_and_raises_amax(name: str) -> None:
    record, case = TABLE[name], OF_FP8[name]
    program = ptx_of(TABLE, record)
    run(program, record, case, late=True)
    run(program, record, replace(case, amax=1e6, splits=1), late=False)
    run(program, record, replace(case, amax=None, scale_result=0.0), late=False)


@pytest.mark.parametrize("name", SPLIT)
def test_thread_blocks_share_k(name: str) -> None:
    """Ranges of k of unequal lengths; a cluster computes one tile after another."""
    record = TABLE[name]
    program = ptx_of(TABLE, record)
    case = SPLIT[name]
    run(program, record, case, late=True)
    run(program, record, replace(case, splits=8 // case.splits if case.splits < 8 else 4), late=False)


@pytest.mark.parametrize("barrier", ["sums are written", "sums are read"])
def test_a_barrier_between_ranges_that_is_lacking_shows(barrier: str) -> None:
    record = TABLE[FEW]
    code = ptx_of(TABLE, record)
    wait = "barrier.cluster.wait;"
    last = code.index("ld.shared::cluster")
    at = code.rindex(wait, 0, last) if barrier == "sums are written" else code.index(wait, last)
    with pytest.raises((AssertionError, StuckError)):
        run(code[:at] + code[at + len(wait) :], record, replace(SPLIT[FEW], splits=2), late=True)


def test_a_wait_that_is_lacking_shows() -> None:
    """A load that does not wait for the MMAs that read its stage overwrites what they read."""
    record = TABLE[SOME]
    program = ptx_of(TABLE, record)
    at = program.rindex("mbarrier.try_wait", 0, program.index("cp.async.bulk.tensor"))
    begin, end = program.rindex("{", 0, at), program.index("}", at) + 1
    with pytest.raises((AssertionError, StuckError)):
        run(program[:begin] + program[end:], record, Case(128, 64, 2000), late=True)
