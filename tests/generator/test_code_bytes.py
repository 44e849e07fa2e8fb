"""Kernels whose machine code is short: a launch in a model finds none of it in the instruction caches."""

from __future__ import annotations

import pytest
from command_line import ROOT

from tilewright_generator import records

# The most bytes of machine code of a kernel, by module. docs/hopper_launches.md says what they cost.
MOST_BYTES = {
    "hc_prenorm": 58_000,
    "sm90_blockscaled_gemm": 39_000,
    "sm90_gemm_gated": 166_000,  # with forms of 10,000 to 35,000 bytes
    # A kernel with plain forms (gemm/plain_form.hpp) has four of 8,000 to 22,300 bytes besides.
    "sm90_gemm_lean": 156_000,
    "sm90_gemm_stream": 18_000,
    "sm90_gemm_tf32_s8": 87_000,
    "sm90_grouped_gemm": 151_000,
    "sm90_reduced_gemm": 24_000,
}
# Kernels of a module that have a bound of their own, by a part of their names.
APART = {
    # A model launches these kernels again and again for some rows: FP8 with block scales, BF16 out. Their
    # bytes are those of seven functions, of which a launch runs one: the general code, which has at most
    # 92,000, and its three forms, with and without clusters (grouped_gemm/form.hpp). All six forms of
    # 128x160 have four copies of their main loop (sm90/scaled_rounds.hpp), of which a launch runs one:
    # 517,504. Without them 128x192 has the most, 400,896.
    ("sm90_grouped_gemm", "_e4m3_e4m3_bf16_1x128_128x128_"): 518_000,
    # Kernels of FP8 groups along k have a form, with and without clusters (grouped_gemm/along_k.hpp), of
    # 15,000 to 27,000 bytes. Calls that add another C than D run the general code: at most 134,000.
    ("sm90_grouped_gemm", "_e4m3_e4m3_f32_1x128_1x128_"): 189_000,
    # So have kernels of BF16 groups along k (grouped_gemm/mn_along_k.hpp), of 19,000 to 22,000 bytes.
    ("sm90_grouped_gemm", "_bf16_bf16_f32_nt_"): 195_000,
    # Kernels with a bias and an activation, which a call may leave out.
    ("sm90_blockscaled_gemm", "_bias_act"): 49_000,
}


def code_bytes(module: str) -> dict[str, int]:
    record = records.read(ROOT / f"benchmarks/results/compile/{module}.json")
    return {row["name"]: row["code_bytes"] for row in record["kernels"]}


@pytest.mark.parametrize("module", MOST_BYTES)
def test_kernels_keep_within_their_modules_bound(module: str) -> None:
    apart = [part for other, part in APART if other == module]
    sizes = {
        name: size for name, size in code_bytes(module).items() if not any(part in name for part in apart)
    }
    assert sizes
    beyond = {name: size for name, size in sizes.items() if size > MOST_BYTES[module]}
    assert not beyond, f"{module}: more than {MOST_BYTES[module]} bytes"


@pytest.mark.parametrize(("module", "part"), APART)
def test_kernels_apart_keep_within_a_bound_of_their_own(module: str, part: str) -> None:
    sizes = {name: size for name, size in code_bytes(module).items() if part in name}
    assert sizes
    beyond = {name: size for name, size in sizes.items() if size > APART[module, part]}
    assert not beyond, f"{module}, {part}: more than {APART[module, part]} bytes"
