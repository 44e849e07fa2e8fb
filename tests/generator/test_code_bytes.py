"""Kernels whose machine code is short: a launch in a model finds none of it in the instruction caches."""

from __future__ import annotations

import pytest
from command_line import ROOT

from tilewright_generator import records

# The most bytes of machine code that a kernel of a module may have. docs/hopper.md says what they cost.
MOST_BYTES = {
    "hc_prenorm": 58_000,
    "sm90_blockscaled_gemm": 39_000,
    "sm90_gemm_lean": 147_000,
    "sm90_gemm_stream": 18_000,
    "sm90_gemm_tf32_s8": 87_000,
    "sm90_grouped_gemm": 151_000,
    "sm90_reduced_gemm": 22_000,
}
# The most bytes of kernels that a model launches again and again for some rows: FP8 with block scales, BF16
# out. They are those of four functions, of which a launch runs one: the general code, which has at most
# 92,000, and its three forms (grouped_gemm/form.hpp).
SCALED = "_e4m3_e4m3_bf16_1x128_128x128_"
MOST_BYTES_SCALED = 210_000


def code_bytes(module: str) -> dict[str, int]:
    record = records.read(ROOT / f"benchmarks/results/compile/{module}.json")
    return {row["name"]: row["code_bytes"] for row in record["kernels"]}


@pytest.mark.parametrize("module", MOST_BYTES)
def test_kernels_keep_within_their_modules_bound(module: str) -> None:
    sizes = code_bytes(module)
    assert sizes
    beyond = {name: size for name, size in sizes.items() if size > MOST_BYTES[module] and SCALED not in name}
    assert not beyond, f"{module}: more than {MOST_BYTES[module]} bytes"


def test_scaled_products_keep_within_a_bound_of_their_own() -> None:
    sizes = {name: size for name, size in code_bytes("sm90_grouped_gemm").items() if SCALED in name}
    assert sizes
    assert not {name: size for name, size in sizes.items() if size > MOST_BYTES_SCALED}
