"""What the rules of `quantize` reject, with which numbers, and what its spec makes for each architecture."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from command_line import ROOT
from rule_checks import Rejected, check_every_rule_is_shown, check_rejected

from tilewright.families.quantize.config import QuantizeConfig
from tilewright.families.quantize.memory import shared_bytes
from tilewright.families.quantize.rules import RULES
from tilewright_generator import families
from tilewright_generator.rules import verdicts

FAMILY = families.get("quantize")
ROWS, CUTE_ROWS = (
    json.loads((ROOT / "generated" / module / "table.json").read_text(encoding="utf-8"))["kernels"]
    for module in ("quantize", "quantize_cute")
)
VECTOR = QuantizeConfig("sm_90a", "nvfp4", "bf16")
RING = replace(VECTOR, variant="tma", stages=2)
SQUARE = replace(VECTOR, format="fp8_128x128")
SILU = replace(VECTOR, fusion="silu_mul")
BACK = replace(VECTOR, direction="dequantize")
CUTE = replace(VECTOR, compiler="cute_dsl")
BOXES = replace(RING, compiler="cute_dsl")

# A neighbour of a legal one; the rule that alone rejects it; what its reason says; and what makes it legal.
REJECTED: list[Rejected] = [
    (VECTOR, {"x": "e4m3", "format": "mxfp8"}, "e4m3_input", "not mxfp8", {"format": "nvfp4"}),
    (BACK, {"x": "e4m3"}, "e4m3_input", "not e4m3", {"x": "f32"}),
    (RING, {"fusion": "silu_mul"}, "tma_source", "silu_mul", {"fusion": "none"}),
    (RING, {"format": "fp8_128x128"}, "tma_source", "128 rows", {"format": "fp8_1x128"}),
    (RING, {"direction": "dequantize"}, "tma_source", "dequantize", {"direction": "quantize"}),
    (RING, {"stages": 1}, "stages_of_variant", "not 1", {"stages": 3}),
    (VECTOR, {"stages": 2}, "stages_of_variant", "not 2", {"variant": "tma"}),
    (RING, {"threads": 384}, "tma_threads", "not 384", {"threads": 512}),
    (replace(RING, x="e4m3"), {"threads": 1024}, "tma_threads", "not 1024", {"threads": 768}),
    (VECTOR, {"threads": 384}, "threads_of_block", "not 384", {"threads": 512}),
    (
        replace(VECTOR, format="fp8_128x128", x="f32"),
        {"threads": 128},
        "threads_of_block",
        "holds 128 elements of a square",
        {"threads": 256},
    ),
    (SILU, {"x": "f32"}, "fused_formats", "not f32", {"x": "f16"}),
    (SILU, {"format": "fp8_128x128"}, "fused_formats", "fp8_128x128", {"format": "mxfp4"}),
    (BACK, {"fusion": "rmsnorm"}, "fused_formats", "rmsnorm", {"direction": "quantize"}),
    (VECTOR, {"arithmetic": "fast", "format": "mxfp4"}, "fast_arithmetic", "mxfp4", {"format": "nvfp4"}),
    (VECTOR, {"four_over_six": "mse", "x": "f32"}, "four_over_six_source", "f32", {"x": "bf16"}),
    (
        VECTOR,
        {"four_over_six": "mse", "format": "mxfp4"},
        "four_over_six_source",
        "mxfp4",
        {"format": "nvfp4"},
    ),
    (
        VECTOR,
        {"four_over_six": "mse", "arithmetic": "fast"},
        "four_over_six_source",
        "fast arithmetic",
        {"arithmetic": "exact"},
    ),
    (CUTE, {"four_over_six": "mse"}, "four_over_six_source", "CuTe-DSL", {"four_over_six": "none"}),
    (
        VECTOR,
        {"four_over_six": "mae", "fusion": "silu_mul"},
        "four_over_six_source",
        "silu_mul",
        {"fusion": "none"},
    ),
    (CUTE, {"format": "mxfp4"}, "cute_dsl_format", "mxfp4", {"format": "nvfp4"}),
    (CUTE, {"direction": "dequantize"}, "cute_dsl_format", "dequantize", {"direction": "quantize"}),
    (CUTE, {"fusion": "silu_mul"}, "cute_dsl_format", "silu_mul", {"fusion": "none"}),
    (CUTE, {"arithmetic": "fast"}, "cute_dsl_format", "fast", {"arithmetic": "exact"}),
    (CUTE, {"x": "f32"}, "cute_dsl_format", "not f32", {"x": "e4m3"}),
    (BOXES, {"threads": 512}, "cute_dsl_box", "512 rows", {"threads": 256}),
    (BOXES, {"stages": 8}, "shared_memory", "232,448", {"stages": 7}),
    (RING, {"stages": 8}, "shared_memory", "232,448", {"stages": 6}),
    (RING, {"arch": "sm_120f", "stages": 4}, "shared_memory", "101,376", {"stages": 3}),
]


def test_shared_memory_of_any_number_of_stages_is_the_compilers() -> None:
    """The bytes that nvcc accepted in the assertions of generated kernels. 3 stages end on 8 bytes."""
    assert shared_bytes(replace(RING, stages=3)) == 99_552
    assert shared_bytes(replace(RING, format="mxfp8", stages=3)) == 98_528


def of_row(row: dict[str, Any]) -> QuantizeConfig:
    return QuantizeConfig(**row["config"])


@pytest.mark.parametrize("one", [VECTOR, RING, SQUARE, SILU, BACK, CUTE, BOXES], ids=FAMILY.kernel_name)
def test_the_usual_ones_are_accepted(one: QuantizeConfig) -> None:
    assert verdicts(FAMILY, one) == []


@pytest.mark.parametrize("one", REJECTED, ids=lambda one: one[2])
def test_what_is_rejected(one: Rejected) -> None:
    check_rejected(FAMILY, one)


def test_every_rule_is_shown() -> None:
    check_every_rule_is_shown(REJECTED, RULES)


@pytest.mark.parametrize("rows", [ROWS, CUTE_ROWS], ids=["quantize", "quantize_cute"])
def test_one_spec_is_for_every_architecture(rows: list[dict[str, Any]]) -> None:
    """The same kernels but for the target, which the name shows."""
    kernels = defaultdict(set)
    for row in rows:
        kernels[row["arch"]].add(replace(of_row(row), arch="sm_90a"))
    assert set(kernels) == {"sm_90a", "sm_100f", "sm_110f", "sm_120f"}
    assert len({frozenset(configs) for configs in kernels.values()}) == 1
    assert len(rows) == sum(map(len, kernels.values()))


def test_names_tell_all_fields() -> None:
    """A change of any field changes the name."""
    changes = [
        {"arch": "sm_100f"}, {"format": "mxfp4"}, {"x": "f16"}, {"direction": "dequantize"}, {"stages": 3},
        {"variant": "tma"}, {"arithmetic": "fast"}, {"fusion": "rmsnorm"}, {"threads": 512}, {"pdl": False},
        {"compiler": "cute_dsl"},
    ]  # fmt: skip
    for base in (VECTOR, RING):
        different = [replace(base, **change) for change in changes]
        legal = {config for config in (base, *different) if verdicts(FAMILY, config) == []}
        assert len({FAMILY.kernel_name(config) for config in legal}) == len(legal) >= 7


@pytest.mark.parametrize("row", [*ROWS, *CUTE_ROWS], ids=lambda row: row["name"])
def test_a_row_says_what_the_machine_code_must_hold(row: dict[str, Any]) -> None:
    """E2M1 by its instruction where there is one, and on sm_90 in software: the same kernels otherwise."""
    config, patterns = of_row(row), " ".join(row["instructions"])
    quantizes, fp4 = config.direction == "quantize", config.format.endswith("fp4")
    assert ("E2M1" in patterns) == (quantizes and fp4 and config.arch != "sm_90a")
    assert ("E4M3" in patterns or "E5M2" in patterns) == (quantizes and not fp4)
    in_cpp = config.compiler == "nvcc"
    assert ("UBLKCP" in patterns) == (config.variant == "tma" and in_cpp)
    assert ("UTMALDG" in patterns) == (config.variant == "tma" and not in_cpp)
    assert row.get("compiler", "nvcc") == config.compiler
    assert row["facts"]["smem_bytes"] == shared_bytes(config)
    assert row["facts"]["threads"] == config.threads + (32 if config.variant == "tma" else 0)
