"""What the rules of `gemm` reject, with which numbers: a neighbour of a legal one on each side of a limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gemm_configurations import (
    BF16,
    CUTE_DSL,
    E5M2,
    FAMILY,
    FEW_ROWS,
    FP8,
    LEAN,
    LEAN_FP8,
    LEAN_FP8_OUT,
    LEAN_TURNS,
    MMA,
    MMA_FP8_OUT,
    PINGPONG,
    S8,
    STREAM,
    TCGEN05,
    TCGEN05_2SM,
    TF32,
    shape,
)
from rule_checks import Rejected, check_every_rule_is_shown, check_rejected

from tilewright.configurations.shapes import Cluster, Tile
from tilewright.families.gemm.config import GemmConfig
from tilewright.families.gemm.rules import RULES
from tilewright_generator.rules import verdicts

LEAN_GATED = replace(LEAN, activation="silu_mul", c="none")


@pytest.mark.parametrize(
    "one",
    [
        *(BF16, PINGPONG, FEW_ROWS, FP8, E5M2, TF32, S8, replace(S8, tile=shape("128x256x128"))),
        *(LEAN_GATED, replace(LEAN_GATED, tile=shape("64x8x128"), swap_ab=True, schedule="cooperative")),
        *(LEAN, LEAN_TURNS, LEAN_FP8, replace(LEAN, tile=shape("64x104x128"), swap_ab=True)),
        *(STREAM, replace(STREAM, a="e4m3", b="e5m2", d="e5m2")),
        *(MMA, MMA_FP8_OUT, replace(MMA, arch="sm_90a"), replace(MMA, tile=shape("64x8x128"), swap_ab=True)),
        *(CUTE_DSL, replace(CUTE_DSL, a="f16", b="f16", d="f16", cluster=Cluster(1, 8))),
        *(replace(CUTE_DSL, tile=shape("256x128x64")), replace(CUTE_DSL, tile=shape("128x256x64"), stages=2)),
        *(TCGEN05, TCGEN05_2SM, replace(TCGEN05, tile=shape("128x16x64"), swap_ab=True)),
        *(
            replace(TCGEN05, arch="sm_103a"),
            replace(TCGEN05, arch="sm_110f", a="e4m3", b="e5m2", tile=shape("128x64x128")),
        ),
        *(replace(TCGEN05, arch="sm_100a", a="s8", b="s8", acc="s32", d="s32", tile=shape("128x64x128")),),
        *(replace(LEAN, layout="nt"), replace(LEAN_FP8, a="e5m2", b="e5m2", d="e4m3")),
    ],
    ids=FAMILY.kernel_name,
)
def test_the_usual_ones_are_accepted(one: GemmConfig) -> None:
    assert verdicts(FAMILY, one) == []


def tile(text: str, **fields: Any) -> dict[str, Any]:
    return {"tile": shape(text), **fields}


# A neighbour of a legal one; the rule that alone rejects it; what its reason says; and what makes it legal.
REJECTED: list[Rejected] = [
    (
        FP8,
        {"b": "e5m2"},
        "operand_types",
        ("e4m3 x e5m2", "only our kernels"),
        {"a": "e5m2", "b": "e4m3"},
    ),
    (FP8, {"d": "e4m3"}, "output_type", ("e4m3", "only our kernels"), {"d": "f16"}),
    (BF16, {"b": "f16"}, "operand_types", ("bf16 by f16", "f16 x f16"), {"a": "f16", "d": "f16"}),
    (BF16, {"acc": "s32"}, "operand_types", ("bf16 x bf16 in f32, not in s32",), {"acc": "f32"}),
    (BF16, {"d": "f16"}, "output_type", ("bf16 or f32, not f16",), {"d": "f32"}),
    (TF32, {"layout": "nn"}, "operand_layout", ("kernels support tf32, of 32 bits",), {"layout": "tn"}),
    (FP8, {"layout": "tt"}, "operand_layout", ("e4m3, of 8 bits",), {"layout": "tn"}),
    (S8, {"layout": "nt"}, "operand_layout", ("s8",), {"layout": "tn"}),
    (PINGPONG, tile("96x128x64"), "instruction_shape", ("M 96", "64"), tile("128x128x64")),
    (BF16, tile("128x132x64"), "instruction_shape", ("N 132", "8"), tile("128x144x64")),
    (PINGPONG, tile("320x32x64"), "tile_size", ("320x32", "256"), tile("256x32x64")),
    (BF16, tile("128x272x64"), "tile_size", ("128x272", "256"), tile("128x256x64")),
    (BF16, tile("128x152x64"), "odd_columns", ("N 152", "144 or 160"), tile("128x160x64")),
    (PINGPONG, tile("64x72x64"), "odd_columns", ("N 72",), tile("64x80x64")),
    (PINGPONG, tile("64x24x64"), "odd_columns", ("N 24", "16 or 32"), tile("64x16x64")),
    (FEW_ROWS, {"stages": 5}, "odd_columns", ("even", "not 5"), {"stages": 6}),
    (FEW_ROWS, {"stages": 3}, "odd_columns", ("not 3",), tile("64x16x64")),
    (BF16, tile("128x128x8"), "tile_depth", ("16 bytes", "32, 64"), tile("128x128x16")),
    (BF16, tile("128x128x48"), "tile_depth", ("96 bytes",), tile("128x128x32")),
    (BF16, tile("128x64x256"), "tile_depth", ("512 bytes", "128 or 256"), tile("128x64x128")),
    (BF16, tile("64x128x64"), "cooperative_rows", ("128", "64 is not"), {"schedule": "pingpong"}),
    (BF16, tile("192x128x64"), "cooperative_rows", ("192",), tile("256x128x64")),
    # 192 accumulators a thread are the most; promoted FP8 has each twice.
    (
        BF16,
        tile("128x208x64", schedule="pingpong"),
        "accumulator_registers",
        ("208 registers > 192", "on 128 threads"),
        tile("128x192x64"),
    ),
    (
        FP8,
        tile("128x208x128"),
        "accumulator_registers",
        ("104 accumulators", "twice", "208 registers > 192"),
        tile("128x192x128"),
    ),
    (FP8, tile("128x256x128"), "accumulator_registers", ("256 registers",), {"fast_accum": True}),
    (BF16, {"cluster": Cluster(8, 2)}, "cluster_size", ("16 thread blocks > 8",), {"cluster": Cluster(4, 2)}),
    (BF16, {"cluster": Cluster(3, 1)}, "cluster_size", ("power of two",), {"cluster": Cluster(8, 1)}),
    (BF16, {"cluster": Cluster(1, 6)}, "cluster_size", ("power of two",), {"cluster": Cluster(1, 8)}),
    # sm_12x has mma.sync, and 99 KB for a thread block.
    (
        MMA,
        {"mainloop": "lean", "cluster": "dynamic"},
        "mainloop_arch",
        ("lean is for sm_90a, not sm_120f", "mma is for sm_120f"),
        {"arch": "sm_90a"},
    ),
    (MMA, tile("192x72x64"), "mma_columns", ("192 rows", "16, not 72"), tile("192x80x64")),
    (MMA_FP8_OUT, tile("128x96x128"), "mma_columns", ("48 columns", "32"), tile("128x128x128")),
    (MMA, tile("128x96x64", layout="tt"), "mma_columns", ("boxes of 64", "96 columns"), tile("128x64x64")),
    (MMA, tile("256x128x64"), "shared_memory", ("101376 B of sm_12x", "2 stages"), {"d": "f32"}),
    (MMA, {"c": "none"}, "settled_fields", ("c of mma kernels is same",), {"c": "same"}),
    # A slice of a tile that is shared has 8 rows at least.
    (
        BF16,
        tile("128x16x64", cluster=Cluster(4, 1)),
        "multicast_slices",
        ("16 rows of B", "4 slices of 4"),
        {"cluster": Cluster(2, 1)},
    ),
    (
        FEW_ROWS,
        {"cluster": Cluster(2, 1)},
        "multicast_slices",
        ("8 rows of B", "2 slices of 4"),
        tile("64x16x64"),
    ),
    (
        BF16,
        tile("128x48x64", cluster=Cluster(4, 1)),
        "multicast_slices",
        ("4 slices of 12",),
        tile("128x32x64"),
    ),
    (
        BF16,
        tile("128x32x64", cluster=Cluster(8, 1)),
        "multicast_slices",
        ("8 slices of 4",),
        tile("128x64x64"),
    ),
    (
        PINGPONG,
        {"scheduler": "stream_k"},
        "stream_k_schedule",
        ("cooperative", "pingpong"),
        {"scheduler": "data_parallel"},
    ),
    (BF16, {"fast_accum": True}, "fast_accumulation", ("bf16",), {"fast_accum": False}),
    (S8, {"fast_accum": True}, "fast_accumulation", ("s8",), {"fast_accum": False}),
    (FP8, tile("128x64x256"), "promoted_depth", ("every 128", "K 256"), tile("128x64x128")),
    (FP8, tile("128x64x256"), "promoted_depth", ("every 128",), {"fast_accum": True}),
    (E5M2, tile("128x64x256"), "promoted_depth", ("every 128",), {"fast_accum": True}),
    (S8, {"activation": "gelu"}, "integer_epilogue", ("gelu",), {"activation": "relu"}),
    (S8, {"activation": "silu"}, "integer_epilogue", ("silu",), {"activation": "none"}),
    # Six stages of 32,768 bytes leave room for the epilogue, seven none; three of 65,536 leave it two.
    (BF16, {"stages": 7}, "shared_memory", ("7 stages", "> 232448 B"), {"stages": 6}),
    (BF16, tile("256x128x128", stages=3), "shared_memory", ("3 stages",), {"stages": "auto"}),
    (TF32, tile("256x128x64", d="f32"), "shared_memory", ("2 stages", "> 232448 B"), tile("256x128x32")),
    (BF16, {"cluster": "dynamic"}, "cluster_size", ("fixed at compile time",), {"cluster": Cluster(2, 1)}),
    (
        LEAN,
        {"a": "tf32", "b": "tf32", "d": "f32"} | tile("128x128x32"),
        "operand_types",
        ("no tf32",),
        {"a": "bf16", "b": "bf16"} | tile("128x128x64"),
    ),
    # Boxes of 64 rows of the kernel's own B, where it has them contiguous, and two warpgroups halve them.
    (LEAN, tile("192x144x64", layout="tt"), "lean_columns", ("72 columns", "64"), tile("128x144x64")),
    (LEAN, tile("192x144x64", layout="tt"), "lean_columns", ("72 columns", "64"), {"layout": "nn"}),
    (LEAN, tile("192x144x64", layout="nn", swap_ab=True), "lean_columns", ("64",), {"layout": "tt"}),
    (LEAN, tile("192x64x64", layout="tt"), "lean_columns", ("32 columns",), tile("192x128x64")),
    # Rows of 32 columns at least, of a result of 8 bits.
    (LEAN_FP8, tile("128x112x128", d="e5m2"), "lean_columns", ("112 columns", "32"), {"swap_ab": True}),
    (LEAN, {"cluster": Cluster(2, 1)}, "settled_fields", ("dynamic", "2x1"), {"cluster": "dynamic"}),
    (LEAN, {"scheduler": "stream_k"}, "settled_fields", ("stream_k",), {"scheduler": "data_parallel"}),
    (LEAN, tile("192x120x64"), "lean_columns", ("multiple of 16", "120"), tile("192x112x64")),
    (LEAN, tile("128x64x32"), "tile_depth", ("64 bytes", "128 or 256"), tile("128x64x64")),
    (LEAN, tile("128x136x64"), "lean_subtiles", ("136 columns", "subtiles of 8"), tile("128x144x64")),
    # 176 accumulators a thread are the most, promoted FP8 has each twice.
    (LEAN, tile("256x192x64"), "accumulator_registers", ("192 registers", "> 176"), tile("192x192x64")),
    (LEAN_FP8, tile("128x192x128"), "accumulator_registers", ("192 registers", "twice"), tile("128x176x128")),
    (LEAN_FP8, tile("128x192x128"), "accumulator_registers", ("192 registers",), {"fast_accum": True}),
    (STREAM, tile("16x16x128"), "stream_tile", ("16x16x128", "16x8"), tile("16x8x64")),
    (STREAM, tile("16x8x256"), "tile_depth", ("512 bytes",), {"a": "e4m3", "b": "e4m3"}),
    (STREAM, {"layout": "tt"}, "settled_fields", ("not tt",), {"layout": "tn"}),
    # All at once: who corrects one is not told of the next.
    (
        LEAN,
        {"cluster": Cluster(1, 1), "bias": False},
        "settled_fields",
        ("cluster of lean kernels is dynamic, not 1x1; bias of lean kernels is true, not false",),
        {"cluster": "dynamic", "bias": True},
    ),
    (STREAM, {"swap_ab": False}, "settled_fields", ("swap_ab",), {"swap_ab": True}),
    (STREAM, {"c": "none"}, "settled_fields", ("c of stream kernels is same",), {"c": "same"}),
    (LEAN, {"bias": False}, "settled_fields", ("bias of lean kernels is true",), {"bias": True}),
    (LEAN_TURNS, {"c": "none"}, "lean_epilogue", ("expected c: same",), {"c": "same"}),
    (LEAN_TURNS, {"d": "f32", "c": "none"}, "lean_epilogue", ("f32",), {"d": "bf16", "c": "same"}),
    (LEAN_FP8_OUT, {"schedule": "pingpong"}, "lean_epilogue", ("c is none",), {"c": "none"}),
    (LEAN, {"activation": "relu"}, "given_activation", ("none or given",), {"activation": "given"}),
    (BF16, {"activation": "given"}, "given_activation", ("relu, gelu, silu",), {"activation": "silu"}),
    (LEAN, {"c": "none"}, "lean_epilogue", ("expected c: same",), {"c": "same"}),
    (LEAN, {"plain_forms": True, "d": "f32"}, "plain_products", ("not lean, D f32",), {"d": "bf16"}),
    (
        LEAN,
        {"plain_forms": True, "activation": "given"},
        "plain_products",
        ("activation given",),
        {"activation": "none"},
    ),
    (MMA, {"plain_forms": True}, "plain_products", ("not mma, D bf16",), {"plain_forms": False}),
    (LEAN, {"split_form": True}, "split_products", ("not without plain forms",), {"plain_forms": True}),
    (
        LEAN_GATED,
        {"plain_forms": True, "split_form": True},
        "split_products",
        ("activation silu_mul",),
        {"split_form": False},
    ),
    (LEAN_GATED, {"c": "same"}, "lean_epilogue", ("silu_mul add no C", "expected c: none"), {"c": "none"}),
    (LEAN_GATED, {"layout": "nn"}, "gated_product", ("layout tn, not nn",), {"layout": "tn"}),
    (LEAN_GATED, {"layout": "tt"}, "gated_product", ("layout tn, not tt",), {"layout": "tn"}),
    (LEAN_GATED, {"d": "f32"}, "gated_product", ("bf16 or f16, not f32",), {"d": "bf16"}),
    (LEAN_GATED, tile("64x24x128"), "gated_product", ("24 columns", "multiple of 16"), tile("64x32x128")),
    (LEAN_GATED, tile("64x24x128"), "gated_product", ("24 columns",), {"swap_ab": True}),
    (LEAN_GATED, tile("192x48x128"), "gated_product", ("24 columns",), tile("192x32x128")),
    (MMA, {"activation": "silu_mul"}, "gated_product", ("only lean kernels", "mma"), {"activation": "given"}),
    (BF16, {"activation": "silu_mul"}, "gated_product", ("only lean kernels",), {"activation": "silu"}),
    (CUTE_DSL, {"d": "f32"}, "cute_dsl_types", ("bf16, bf16, f32",), {"d": "bf16"}),
    (CUTE_DSL, tile("64x128x64"), "cute_dsl_tile", ("not 64",), tile("128x128x64")),
    (CUTE_DSL, tile("128x96x64"), "cute_dsl_tile", ("96 is not",), tile("128x64x64")),
    (CUTE_DSL, {"cluster": Cluster(3, 1)}, "cute_dsl_cluster", ("3x1",), {"cluster": Cluster(4, 1)}),
    (CUTE_DSL, {"cluster": Cluster(4, 4)}, "cute_dsl_cluster", ("4x4",), {"cluster": Cluster(4, 2)}),
    (CUTE_DSL, {"cluster": "dynamic"}, "cute_dsl_cluster", ("compiled in",), {"cluster": Cluster(1, 1)}),
    (CUTE_DSL, tile("128x64x128"), "tile_depth", ("256 bytes, not 128",), tile("128x64x64")),
    (CUTE_DSL, {"bias": True}, "settled_fields", ("bias of cute_dsl kernels is false",), {"bias": False}),
    (TCGEN05, tile("64x128x64"), "tcgen05_tile", ("not 64",), tile("128x128x64")),
    (TCGEN05, tile("128x48x64"), "tcgen05_tile", ("of 32 up to 256, not 48",), tile("128x96x64")),
    (
        replace(TCGEN05, swap_ab=True),
        tile("128x40x64"),
        "tcgen05_tile",
        ("of 16 up to 256, not 40",),
        tile("128x48x64"),
    ),
    (
        TCGEN05,
        {"cluster": Cluster(3, 1)},
        "tcgen05_cluster",
        ("3x1 is not of 8 thread blocks",),
        {"cluster": Cluster(4, 2)},
    ),
    (
        TCGEN05,
        {"cluster": Cluster(4, 4)},
        "tcgen05_cluster",
        ("4x4 is not of 8 thread blocks",),
        {"cluster": Cluster(2, 4)},
    ),
    (TCGEN05, {"cluster": "dynamic"}, "tcgen05_cluster", ("compiled in",), {"cluster": Cluster(1, 1)}),
    (TCGEN05_2SM, {"cluster": Cluster(1, 2)}, "tcgen05_cluster", ("pairs",), {"cluster": Cluster(2, 2)}),
    (
        replace(TCGEN05, tile=shape("128x32x64")),
        {"cluster": Cluster(8, 1)},
        "tcgen05_cluster",
        ("4 rows",),
        {"cluster": Cluster(4, 1)},
    ),
    (TCGEN05, {"stages": 12}, "tcgen05_memory", ("with 12 stages",), {"stages": 6}),
    (
        replace(TCGEN05, a="e4m3", b="e4m3", d="bf16", tile=shape("128x32x128")),
        {"d": "e4m3"},
        "tcgen05_store",
        ("64 columns", "32 is not"),
        {"swap_ab": True},
    ),
    (TCGEN05, {"schedule": "pingpong"}, "mma_schedule", ("1sm or 2sm",), {"schedule": "1sm"}),
    (LEAN, {"schedule": "2sm"}, "mma_schedule", ("cooperative or pingpong",), {"schedule": "cooperative"}),
    (TCGEN05, {"activation": "none"}, "settled_fields", ("activation of tcgen05",), {"activation": "given"}),
    (TCGEN05, {"layout": "nt"}, "settled_fields", ("not nt",), {"layout": "tn"}),
    (CUTE_DSL, {"layout": "nt"}, "settled_fields", ("not nt",), {"layout": "tn"}),
    (
        CUTE_DSL,
        tile("256x192x64"),
        "accumulator_registers",
        ("192 registers > 128",),
        tile("256x128x64"),
    ),
    (CUTE_DSL, {"stages": 7}, "shared_memory", ("7 stages",), {"stages": 6}),
    (LEAN, {"stages": 7}, "shared_memory", ("7 stages", "> 232448 B"), {"stages": 6}),
]


@pytest.mark.parametrize("one", REJECTED, ids=lambda one: one[2])
def test_a_rule_rejects_with_its_numbers_and_accepts_the_neighbour(one: Rejected) -> None:
    check_rejected(FAMILY, one)


def test_every_rule_is_shown() -> None:
    check_every_rule_is_shown(REJECTED, RULES)


def test_s8_instructions_lack_the_odd_multiples_of_8_above_24() -> None:
    """Beside CUTLASS's limit, which another release may lift."""
    for n, lacking in ((8, False), (16, False), (24, False), (32, False), (40, True), (48, False)):
        actual = {verdict.rule for verdict in verdicts(FAMILY, replace(S8, tile=Tile(128, n, 128)))}
        assert ("instruction_shape" in actual) == lacking, n


def test_cutes_further_shapes_are_included_where_a_tile_wants_them_alone() -> None:
    """They are slow to compile, and without them CuTe multiplies such a tile in small pieces."""

    def defines(config: GemmConfig) -> list[str]:
        return [define.partition("=")[0] for define in FAMILY.build(config)["defines"]]

    extended = "CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED"
    for n, expected in ((128, False), (160, True), (192, False), (240, True), (256, False)):
        assert (extended in defines(replace(BF16, tile=Tile(128, n, 64)))) == expected, n
    assert defines(replace(LEAN, tile=Tile(128, 160, 64))) == []
    assert defines(STREAM) == []
