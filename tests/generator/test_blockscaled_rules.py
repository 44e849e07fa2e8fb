"""What the rules of `blockscaled_gemm` reject, and with which numbers."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, get_args, get_type_hints

import pytest
from blockscaled_configurations import (
    CUTE,
    CUTE_ACT,
    DYNAMIC,
    FAMILY,
    HOPPER,
    MMA,
    MMA_ACT,
    MX100,
    MX120,
    ONE,
    RUBIN,
    SM100,
    SM120,
    ULTRA,
    ULTRA_CUTE,
    shape,
)
from command_line import ROOT
from rule_checks import Rejected, check_every_rule_is_shown, check_rejected

from tilewright.configurations.shapes import Cluster
from tilewright.families.blockscaled_gemm import mma_rules, rubin_rules, tcgen05_rules
from tilewright.families.blockscaled_gemm.config import BlockscaledGemmConfig
from tilewright.families.blockscaled_gemm.rules import RULES
from tilewright_generator.rules import verdicts

RECORD = ROOT / "benchmarks" / "results" / "rules_against_compiler.json"


@pytest.mark.parametrize(
    "one",
    [SM100, MX100, ULTRA, RUBIN, SM120, MX120, MMA, MMA_ACT, CUTE, CUTE_ACT, ULTRA_CUTE, HOPPER],
    ids=FAMILY.kernel_name,
)
def test_the_usual_ones_are_accepted(one: BlockscaledGemmConfig) -> None:
    assert verdicts(FAMILY, one) == []


BIAS: dict[str, Any] = {"bias": True, "activation": "given"}

# A neighbour of a legal one; the rule that alone rejects it; what its reason says; and what makes it legal.
REJECTED: list[Rejected] = [
    (SM100, {"b": "mxfp4"}, "operand_formats", ("nvfp4 has blocks of 16", "mxfp4 of 32"), {"a": "mxfp4"}),
    (MX100, {"b": "nvfp4"}, "operand_formats", ("32", "16"), {"b": "mxfp8_e5m2"}),
    (HOPPER, {"d": "mxfp8"}, "quantized_output", ("sm_90", "mxfp8"), {"d": "f32"}),
    (HOPPER, {"d": "e5m2"}, "quantized_output", ("sm_90", "e5m2"), {"d": "f16"}),
    (RUBIN, {"cutlass": "4.5"}, "rubin_release", ("4.5", "4.8"), {"cutlass": "4.8"}),
    (SM100, {"cutlass": "4.8"}, "rubin_release", ("sm_100f", "4.8"), {"cutlass": "4.5"}),
    (RUBIN, {"store": "direct"}, "rubin_types", ("sm_107a", "direct"), {"store": "tma"}),
    (RUBIN, {"a": "mxfp4", "b": "mxfp4"}, "rubin_types", ("mxfp4",), {"a": "nvfp4", "b": "nvfp4"}),
    (RUBIN, {"tile": shape("128x128x128")}, "rubin_depth", ("256", "128"), {"tile": shape("128x256x256")}),
    (SM100, {"d": "nvfp4", "swap_ab": True}, "quantized_swap", ("nvfp4",), {"swap_ab": False}),
    (SM100, {"d": "mxfp8", "store": "direct"}, "quantized_store", ("mxfp8", "direct"), {"store": "tma"}),
    (
        SM100,
        {"schedule": "cooperative"},
        "schedule_of_family",
        ("1sm or 2sm", "cooperative"),
        {"schedule": "1sm"},
    ),
    (
        SM120,
        {"schedule": "2sm"},
        "schedule_of_family",
        ("cooperative or pingpong",),
        {"schedule": "pingpong"},
    ),
    (SM100, {"tile": shape("64x128x256")}, "tcgen05_tile", ("128", "64"), {"tile": shape("128x128x128")}),
    (SM100, {"tile": shape("256x128x256")}, "tcgen05_tile", ("not 256",), {"tile": shape("128x256x256")}),
    (
        SM100,
        {"tile": shape("128x96x256")},
        "tcgen05_tile",
        ("64, 128, 192 or 256", "96"),
        {"tile": shape("128x192x256")},
    ),
    (SM100, {"tile": shape("128x32x256")}, "tcgen05_tile", ("not 32",), {"tile": shape("128x64x256")}),
    (
        MX100,
        {"tile": shape("128x128x256")},
        "tile_depth",
        ("mxfp8", "128, not 256"),
        {"a": "mxfp4", "b": "mxfp4"},
    ),
    (
        SM100,
        {"tile": shape("128x128x64")},
        "tile_depth",
        ("128 or 256, not 64",),
        {"tile": shape("128x128x128")},
    ),
    (SM120, {"tile": shape("128x128x512")}, "tile_depth", ("not 512",), {"tile": shape("128x128x256")}),
    (ULTRA, {"arch": "sm_100f"}, "ultra_arch", ("768", "sm_103a", "sm_100f"), {"tile": shape("128x128x256")}),
    (ULTRA, {"a": "mxfp8", "b": "mxfp8"}, "ultra_tile", ("FP4", "mxfp8"), {"a": "mxfp4", "b": "mxfp4"}),
    (
        ULTRA,
        {"tile": shape("128x64x768")},
        "ultra_tile",
        ("128, 192 or 256", "64"),
        {"tile": shape("128x192x768")},
    ),
    (ULTRA, {"store": "tma", "c": "same"}, "ultra_store", ("768", "C"), {"c": "none"}),
    (ULTRA, {"stages": 6}, "ultra_stages", ("not 6",), {"stages": "auto"}),
    (ULTRA, {"pdl": True}, "ultra_pdl", ("scale factors", "768"), {"pdl": False}),
    (SM100, {"prefetch": "none"}, "settled_fields", ("prefetch", "256"), {"prefetch": "tma"}),
    (
        SM120,
        {"tile": shape("64x128x128")},
        "sm120_tile",
        ("128 or 256", "64"),
        {"tile": shape("256x128x128")},
    ),
    (SM120, {"tile": shape("128x96x128")}, "sm120_tile", ("96",), {"tile": shape("128x256x128")}),
    (SM120, {"tile": shape("128x64x128")}, "sm120_tile", ("64", "4.2", '"4.5"'), {"cutlass": "4.5"}),
    (
        SM120,
        {"tile": shape("128x16x128"), "cutlass": "4.5"},
        "sm120_tile",
        ("N 16 needs CUTLASS 4.6",),
        {"tile": shape("128x32x128")},
    ),
    (
        SM120,
        {"tile": shape("256x256x128")},
        "sm120_accumulators",
        ("256 accumulators", "128"),
        {"tile": shape("256x128x128")},
    ),
    (
        SM120,
        {"tile": shape("256x128x128"), "schedule": "pingpong"},
        "sm120_accumulators",
        ("128 threads",),
        {"schedule": "cooperative"},
    ),
    (SM120, {"cluster": Cluster(2, 1)}, "cluster_of_one", ("2x1",), {"cluster": ONE}),
    (SM120, {"cluster": DYNAMIC}, "cluster_of_one", ("dynamic",), {"cluster": ONE}),
    (SM100, {"cluster": Cluster(8, 1)}, "cluster_size", ("8x1",), {"cluster": Cluster(4, 4)}),
    (MX100, {"cluster": Cluster(1, 3)}, "cluster_size", ("1x3",), {"cluster": Cluster(1, 4)}),
    (SM100, {"cluster": ONE}, "cluster_of_pairs", ("even", "1 is not"), {"schedule": "1sm"}),
    (
        SM120,
        {"schedule": "pingpong", "scheduler": "stream_k"},
        "stream_k_schedule",
        ("pingpong",),
        {"schedule": "cooperative"},
    ),
    (SM120, {"store": "direct"}, "settled_fields", ("sm_12x", "direct"), {"store": "tma"}),
    (
        HOPPER,
        {"tile": shape("192x16x256")},
        "hopper_tile",
        ("64, 128 or 256", "192"),
        {"tile": shape("256x16x256")},
    ),
    (HOPPER, {"tile": shape("64x24x256")}, "hopper_tile", ("24",), {"tile": shape("64x32x256")}),
    (
        HOPPER,
        {"tile": shape("64x16x64")},
        "hopper_depth",
        ("128, 256 or 512, not 64",),
        {"tile": shape("64x16x128")},
    ),
    (HOPPER, {"cluster": Cluster(2, 1)}, "settled_fields", ("2x1",), {"cluster": ONE}),
    (HOPPER, {"scheduler": "stream_k"}, "settled_fields", ("stream_k",), {"scheduler": "data_parallel"}),
    (HOPPER, {"swap_ab": False}, "settled_fields", ("swap_ab", "is true"), {"swap_ab": True}),
    (MMA, {"arch": "sm_90a"}, "mma_arch", ("sm_12x, not sm_90a",), {"arch": "sm_120f"}),
    (MMA, {"d": "nvfp4", "swap_ab": False}, "mma_output", ("nvfp4",), {"d": "f16"}),
    (MMA, {"tile": shape("192x16x256")}, "mma_tile", ("64, 128 or 256", "192"), {"tile": shape("64x16x256")}),
    (MMA, {"tile": shape("128x24x256")}, "mma_tile", ("24",), {"tile": shape("128x32x256")}),
    (
        MMA,
        {"tile": shape("128x16x64")},
        "mma_depth",
        ("128, 256 or 512, not 64",),
        {"tile": shape("128x16x128")},
    ),
    (
        MMA,
        {"a": "mxfp8", "b": "mxfp8", "tile": shape("128x16x512")},
        "mma_depth",
        ("128 or 256, not 512",),
        {"tile": shape("128x16x256")},
    ),
    (
        MMA,
        {"tile": shape("256x256x128"), "d": "f32"},
        "mma_accumulators",
        ("256 accumulators a thread > 128",),
        {"tile": shape("256x128x128")},
    ),
    (MMA, {"scheduler": "stream_k"}, "settled_fields", ("mma", "stream_k"), {"scheduler": "data_parallel"}),
    (MMA, {"c": "none"}, "settled_fields", ("mma", "none"), {"c": "same"}),
    (MMA, {"bias": False}, "settled_fields", ("bias", "mma is true"), {"bias": True}),
    (
        CUTE,
        {"arch": "sm_120f", "schedule": "cooperative"},
        "cute_dsl_arch",
        ("sm_100, sm_103 and sm_110, not sm_120f",),
        {"arch": "sm_110a", "schedule": "2sm", "cluster": Cluster(2, 1)},
    ),
    (
        CUTE,
        {"a": "mxfp8", "b": "mxfp4", "tile": shape("128x128x128")},
        "cute_dsl_operands",
        ("mxfp8 x mxfp4",),
        {"b": "mxfp8"},
    ),
    (CUTE, {"d": "nvfp4"}, "cute_dsl_output", ("nvfp4",), {"d": "f16"}),
    (CUTE, {"tile": shape("128x128x128")}, "cute_dsl_tile", ("256", "128"), {"tile": shape("128x128x256")}),
    (
        CUTE,
        {"tile": shape("128x192x256")},
        "cute_dsl_tile",
        ("64, 128 or 256",),
        {"tile": shape("128x64x256")},
    ),
    (
        ULTRA_CUTE,
        {"tile": shape("128x192x768")},
        "cute_dsl_tile",
        ("128 or 256",),
        {"tile": shape("128x256x768")},
    ),
    (CUTE, {"store": "direct", "swap_ab": True}, "cute_dsl_store", ("swapped",), {"swap_ab": False}),
    (CUTE, {"cluster": "dynamic"}, "cute_dsl_cluster", ("compiled in, not dynamic",), {"cluster": ONE}),
    (CUTE, {"cluster": Cluster(4, 4)}, "cute_dsl_cluster", ("more than 8",), {"cluster": Cluster(4, 2)}),
    (CUTE, {"c": "none"}, "settled_fields", ("tcgen05", "none"), {"c": "same"}),
    (CUTE, {"bias": False}, "settled_fields", ("bias", "tcgen05 is true"), {"bias": True}),
    # Seven stages of 28,672 bytes fit beside the epilogue.
    (SM100, {"stages": 8}, "shared_memory", ("B > 232448 B", "8 stages"), {"stages": 7}),
    (
        SM120,
        {"tile": shape("128x128x256"), "stages": 3},
        "shared_memory",
        ("B > 101376 B", "3 stages"),
        {"stages": 2},
    ),
    (
        MX120,
        {"tile": shape("256x128x128")},
        "shared_memory",
        ("101376 B", "1 stages"),
        {"tile": shape("128x128x128")},
    ),
    (
        MX100,
        {"tile": shape("128x256x128"), "d": "f32", "c": "same"},
        "two_stages",
        ("232448 B", "1 stage "),
        {"c": "none"},
    ),
    (SM100, {"bias": True}, "bias_and_activation", ("true", "none"), {"activation": "given"}),
    (SM100, BIAS | {"d": "nvfp4"}, "quantized_bias", ("nvfp4",), {"d": "bf16"}),
    (SM100, BIAS | {"d": "e4m3"}, "quantized_bias", ("e4m3",), {"d": "f16"}),
    (SM100, BIAS | {"store": "direct"}, "biased_store", ("direct", "tma"), {"store": "tma"}),
    (ULTRA, BIAS, "biased_store", ("768", "no bias"), {"bias": False, "activation": "none"}),
]


@pytest.mark.parametrize("one", REJECTED, ids=lambda one: one[2])
def test_a_rule_rejects_with_its_numbers_and_accepts_the_neighbour(one: Rejected) -> None:
    check_rejected(FAMILY, one)


def test_every_rule_is_shown() -> None:
    check_every_rule_is_shown(REJECTED, RULES)


@pytest.fixture(scope="module")
def candidates() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(RECORD.read_text(encoding="utf-8"))["candidates"]
    return rows


def test_the_sample_is_large_and_has_every_rule_and_architecture(candidates: list[dict[str, Any]]) -> None:
    blackwell = [row for row in candidates if row["config"]["arch"] != "sm_90a"]
    accepted = [row for row in blackwell if not row["rule"]]
    assert len(blackwell) >= 60
    assert len(accepted) >= 30
    assert len(blackwell) - len(accepted) >= 30
    # Our own mainloops for Blackwell are not CUTLASS's: nvcc compiles no candidate of theirs. The rules of
    # Rubin came after the sample was drawn.
    ours = (*mma_rules.RULES, *tcgen05_rules.RULES, *rubin_rules.RULES)
    others = [rule.name for rule in RULES if rule not in ours]
    assert {row["rule"] for row in candidates} == {*others, ""}
    per_arch = Counter(row["config"]["arch"] for row in accepted)
    assert per_arch.keys() == {"sm_100f", "sm_103a", "sm_110a", "sm_120f"}
    drawn = get_args(get_type_hints(BlockscaledGemmConfig)["a"])
    assert {row["config"]["a"] for row in accepted} == set(drawn)
    assert {(row["config"]["tile"][2] == 768) for row in blackwell if row["compiles"]} == {False, True}
