"""The kernel of `mqa_logits` for sm_100, on the host: what it tells the tensor core, and all around that.

No GPU of sm_100 has run it. Its descriptors are compared, field by field, with the PTX ISA's tables, and with
CUTLASS's. Then the whole kernel runs (`host_gpu.hpp`: every thread, TMA, mbarriers, in changing orders) with
a tensor core that reads descriptors and tensor memory as the ISA says (`tcgen05_emulated.hpp`), against what
double yields.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cutlass_descriptors import descriptors, digest_of_lines
from host_programs import ROOT, compiled, empty_headers, run

from tilewright.compile.nvcc.toolchain import find_toolchain

HERE = Path(__file__).parent
INCLUDE = ROOT / "runtime/include"
# What host_gpu.hpp stands for.
REPLACED = (
    "cuda.h",
    "cuda_runtime_api.h",
    "tilewright/adapter.hpp",
    "tilewright/launch.hpp",
    "tilewright/sm90/elements.hpp",
    "tilewright/sm90/ptx.hpp",
    "tilewright/sm90/wgmma.hpp",
)
SATURATE = 'asm("mul.sat.f32 %0, %1, %2;" : "=f"(result) : "f"(product), "f"(kUnit));'

# PTX ISA 9.0, "Shared memory descriptor" and "Instruction descriptor": first bit, bits, value.
Fields = dict[str, tuple[int, int, int]]


def of_shared(stride: int, swizzle: int) -> Fields:
    """The descriptor of a matrix at 0x2A400 whose groups of 8 rows are `stride` bytes apart."""
    return {
        "matrix start address": (0, 14, (0x2A400 & 0x3FFFF) >> 4),
        "leading dimension byte offset": (16, 14, 0),  # not used: rows are no wider than the swizzle
        "stride dimension byte offset": (32, 14, stride >> 4),
        "fixed": (46, 3, 0b001),
        "matrix base offset": (49, 3, 0),
        "leading dimension stride mode": (52, 1, 0),
        "fixed too": (53, 8, 0),
        "swizzling mode": (61, 3, swizzle),
    }


def of_fp8(columns: int) -> Fields:
    """.kind::f8f6f4."""
    return {
        "sparsity": (2, 1, 0), "dtype F32": (4, 2, 1), "atype E4M3": (7, 3, 0), "btype E4M3": (10, 3, 0),
        "transpose A": (15, 1, 0), "transpose B": (16, 1, 0), "N >> 3": (17, 6, columns >> 3),
        "M >> 4": (24, 5, 128 >> 4), "shift": (30, 2, 0),
    }  # fmt: skip


def of_fp4(columns: int, first: int) -> Fields:
    """.kind::mxf4."""
    return {
        "sparsity": (2, 1, 0), "B scale factor data ID": (4, 2, first), "atype E2M1": (7, 3, 1),
        "btype E2M1": (10, 2, 1), "transpose A": (15, 1, 0), "transpose B": (16, 1, 0),
        "N >> 3": (17, 6, columns >> 3), "scale type UE8M0": (23, 1, 1), "M >> 7": (27, 2, 128 >> 7),
        "A scale factor data ID": (29, 2, first), "K dimension 64": (31, 1, 0),
    }  # fmt: skip


DESCRIPTORS: dict[str, Fields] = {
    "rows128": of_shared(8 * 128, 2),
    "rows64": of_shared(8 * 64, 4),
    "rows32": of_shared(8 * 32, 6),
    "words": of_shared(8 * 16, 0),
    "fp8_16": of_fp8(16),
    "fp8_128": of_fp8(128),
    "fp8_256": of_fp8(256),
    "fp4_128_0": of_fp4(128, 0),
    "fp4_128_2": of_fp4(128, 2),
}


CASES = (
    "ragged_warp_fp8", "ragged_warp_fp4", "ragged_fp8_16x64", "ragged_fp8_32x32", "ragged_fp8_short",
    "ragged_fp4_64x128", "ragged_fp4_short", "paged_fp8_16x128", "paged_fp4_32x128", "paged_fp4_64x64",
    "paged_fp8_80_pages",
)  # fmt: skip


@pytest.fixture(scope="module")
def program() -> Path:
    text = (INCLUDE / "tilewright/mqa_logits/reduction.hpp").read_text()
    assert text.count(SATURATE) == 1
    saturated = text.replace(SATURATE, "result = std::min(std::max(product * kUnit, 0.0f), 1.0f);")
    return compiled(
        "mqa_tcgen05",
        [HERE / "mqa_tcgen05.cc"],
        ["-std=c++17", "-O2", f"-I{HERE}", f"-I{INCLUDE}"],
        files=empty_headers(REPLACED) | {"tilewright/mqa_logits/reduction.hpp": saturated},
    )


def test_descriptors_are_the_isas(program: Path) -> None:
    actual = values(program, "descriptors")
    expected = {}
    for name, fields in DESCRIPTORS.items():
        assert all(value < 1 << bits for _, bits, value in fields.values()), name
        taken = [first + i for first, bits, _ in fields.values() for i in range(bits)]
        assert len(taken) == len(set(taken)), name
        expected[name] = sum(value << first for first, _, value in fields.values())
    assert actual == expected


@pytest.mark.parametrize("when", ["early", "late"])
@pytest.mark.parametrize("case", CASES)
def test_the_kernel_computes_logits(program: Path, case: str, when: str) -> None:
    """FP8 and FP4, ragged and paged, rings that wrap, copies and products early and late: no fault, every
    logit."""
    done = run(program, case, when)
    assert (done.returncode, done.stdout) == (0, "")


def test_every_case_is_run(program: Path) -> None:
    assert run(program).stdout.split() == list(CASES)


@pytest.mark.compile
def test_cutlass_says_the_same(program: Path) -> None:
    """CUTLASS's descriptors equal ours, except where a matrix begins, and in the distance that is not used
    (CUTLASS writes 1). Its scale factors have the same places in tensor memory: four bytes to a column, lanes
    2^18 apart."""
    theirs, ours = descriptors(find_toolchain()), values(program, "descriptors")
    unused = (1 << 14) - 1 | ((1 << 14) - 1) << 16
    for name in DESCRIPTORS.keys() - {"words"}:
        mask = ~unused if name.startswith("rows") else -1
        assert int(theirs[name], 16) & mask == ours[name] & mask, name
    places = [
        f"scale_{row}_{quarter}_{block} {row % 32 + 32 * quarter << 18 | row // 32 << 2 | block:x}"
        for row in range(128)
        for quarter in range(4)
        for block in range(4)
    ]
    assert theirs["scales"] == digest_of_lines(places)


@pytest.mark.compile
def test_tensor_memory_is_allocated_when_the_previous_kernel_has_ended(tmp_path: Path) -> None:
    """A thread block of that kernel may yet allocate on the SM. It would wait for ours, and ours for it."""
    source = ROOT / "generated/mqa_logits/mqa_logits_sm100f_ragged_64x128_bf16_2q_2wg_8stages.cu"
    ptx = tmp_path / "kernel.ptx"
    flags = ["-ptx", "-std=c++17", "-arch=sm_100f", f"-I{INCLUDE}"]
    subprocess.run([str(find_toolchain().nvcc), *flags, str(source), "-o", str(ptx)], check=True)
    text = ptx.read_text()
    assert text.count("tcgen05.alloc.") == 1
    assert 0 <= text.find("griddepcontrol.wait;") < text.find("tcgen05.alloc.")


def values(*command: object) -> dict[str, int]:
    """The names and hexadecimal numbers that a program prints."""
    text = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
    lines = [line.split() for line in text.splitlines()]
    return {name: int(number, 16) for name, number in lines}
