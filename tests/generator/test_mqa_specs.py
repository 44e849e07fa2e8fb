"""What the rules of `mqa_logits` reject, with which numbers, and what its spec makes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from command_line import ROOT
from rule_checks import Rejected, check_every_rule_is_shown, check_rejected

from tilewright.families.mqa_logits.config import MqaLogitsConfig
from tilewright.families.mqa_logits.rules import RULES
from tilewright_generator import families
from tilewright_generator.rules import verdicts

FAMILY = families.get("mqa_logits")
ROWS = json.loads((ROOT / "generated/mqa_logits/table.json").read_text(encoding="utf-8"))["kernels"]
RAGGED = MqaLogitsConfig("sm_90a", "ragged", run=8)
PAGED = MqaLogitsConfig("sm_90a", "paged", queries=1, pieces=1, stages=16)
SYNC = MqaLogitsConfig("sm_120f", "ragged", mma="mma_sync", queries=1, pieces=1)
FP4 = MqaLogitsConfig("sm_90a", "paged", q="mxfp4", queries=2)
TENSOR = MqaLogitsConfig("sm_100f", "ragged", mma="tcgen05", queries=2, pieces=1)
TENSOR_FP4 = replace(TENSOR, form="paged", q="mxfp4", stages=16)
SCHEDULE = MqaLogitsConfig("sm_100f", "schedule")

# A neighbour of a legal one; the rule that alone rejects it; what its reason says; and what makes it legal.
REJECTED: list[Rejected] = [
    (SCHEDULE, {"heads": 32}, "schedule_alone", "no heads", {"heads": 64}),
    (SCHEDULE, {"run": 2}, "schedule_alone", "no run", {"run": 1}),
    (SYNC, {"mma": "wgmma"}, "instruction_arch", "is for sm_90a, not for sm_120f", {"arch": "sm_90a"}),
    (SYNC, {"mma": "block_scaled"}, "instruction_arch", "of e4m3 is for no GPU", {"q": "mxfp4"}),
    (SYNC, {"q": "mxfp4"}, "instruction_arch", "of mxfp4 is for no GPU", {"mma": "block_scaled"}),
    (SYNC, {"arch": "sm_100f"}, "instruction_arch", "is for sm_120f, not for sm_100f", {"arch": "sm_90a"}),
    (
        TENSOR,
        {"arch": "sm_120f", "head_dim": 32},
        "instruction_arch",
        "is for sm_100f and sm_110f, not for sm_120f",
        {"arch": "sm_110f"},
    ),
    (TENSOR, {"warpgroups": 1}, "tensor_tiles", "warpgroups of tcgen05 is 2, not 1", {"warpgroups": 2}),
    (TENSOR, {"pieces": 2}, "tensor_tiles", "pieces of tcgen05 is 1, not 2", {"pieces": 1}),
    (TENSOR, {"queries": 4}, "register_file", "320 registers a thread > 192", {"heads": 32}),
    (TENSOR_FP4, {"queries": 1}, "tensor_tiles", "64 columns, not 128", {"q": "e4m3", "stages": 8}),
    (FP4, {"head_dim": 32}, "fp4_heads", "not 32", {"q": "e4m3"}),
    (PAGED, {"queries": 3}, "query_block", "not 3", {"queries": 2}),
    (SYNC, {"arch": "sm_90a", "queries": 8, "pieces": 4}, "query_block", "512 columns", {"heads": 32}),
    (PAGED, {"pieces": 2}, "query_block", "1 queries do not divide", {"queries": 2}),
    (RAGGED, {"warpgroups": 3, "stages": 12}, "register_file", "192 registers", {"queries": 2}),
    (PAGED, {"stages": 2}, "stages_of_warpgroups", "2 stages are not more than 2", {"stages": 4}),
    (PAGED, {"stages": 15}, "stages_of_warpgroups", "not a multiple of 2", {"stages": 14}),
    (PAGED, {"warpgroups": 3}, "stages_of_warpgroups", "not a multiple of 6", {"stages": 18}),
    (RAGGED, {"stages": 4}, "stages_of_warpgroups", "4 stages are not more than 4", {"run": 1}),
    (RAGGED, {"pieces": 1}, "tiles_in_a_row", "e4m3 in 1", {"pieces": 2}),
    (FP4, {"run": 2}, "tiles_in_a_row", "not wgmma of mxfp4 in 2", {"run": 1}),
    (
        SYNC,
        {"arch": "sm_90a", "queries": 2, "pieces": 2, "run": 2},
        "tiles_in_a_row",
        "not mma_sync",
        {"run": 1},
    ),
    (RAGGED, {"stages": 30}, "shared_memory", "232,448", {"stages": 16}),
    (SYNC, {"stages": 14}, "shared_memory", "101,376", {"stages": 8}),
    (TENSOR, {"stages": 12}, "shared_memory", "232,448", {"stages": 10}),
    (TENSOR, {"arch": "sm_90a"}, "shared_memory", "sm_90a has", {"queries": 1, "stages": 4}),
]


@pytest.mark.parametrize(
    "one", [RAGGED, PAGED, SYNC, FP4, TENSOR, TENSOR_FP4, SCHEDULE], ids=FAMILY.kernel_name
)
def test_the_usual_ones_are_accepted(one: MqaLogitsConfig) -> None:
    assert verdicts(FAMILY, one) == []


@pytest.mark.parametrize("one", REJECTED, ids=lambda one: one[2])
def test_what_is_rejected(one: Rejected) -> None:
    check_rejected(FAMILY, one)


def test_every_rule_is_shown() -> None:
    check_every_rule_is_shown(REJECTED, RULES)


def test_shared_memory_is_as_kernel_hpp_lays_it_out() -> None:
    stage = 64 * (128 + 4) + 2 * 8
    assert RAGGED.shared_bytes == 2 * (256 * (128 + 4) + 2 * 8) + 8 * stage
    assert PAGED.shared_bytes == 2 * (64 * (128 + 4) + 2 * 8) + 16 * stage
    decoded, scales = 128 * 128 * 2, 128 * 4
    assert FP4.shared_bytes == 2 * (128 * (64 + 4) + scales + decoded + 2 * 8) + 8 * (64 * (64 + 4) + 2 * 8)
    tensor_stage = 128 * (128 + 4) + 2 * 8  # barriers of four tiles, and where tensor memory begins
    assert TENSOR.shared_bytes == 2 * (128 * (128 + 4) + 2 * 8) + 8 * tensor_stage + 4 * 16 + 16
    queries, keys = 128 * (64 + 4) + scales + 2 * 8, 128 * (64 + 4) + 2 * 8
    words_in_order = 8
    assert TENSOR_FP4.shared_bytes == (
        2 * (queries + words_in_order) + 16 * (keys + words_in_order) + 2 * 16 + 16
    )
    assert FAMILY.facts(SCHEDULE) == {"smem_bytes": 0, "threads": 1024}
    assert FAMILY.facts(RAGGED)["threads"] == 384


def test_tensor_memory_has_tiles_for_both_warpgroups() -> None:
    """512 columns: of FP8 two tiles each; of FP4 one, with words of 128 keys in four columns, those of two
    blocks of queries. Emulated, a column is 128 words of shared memory."""
    assert TENSOR.tensor == (4, 4 * 128)
    assert TENSOR_FP4.tensor == (2, 2 * (128 + 4) + 2 * 4)
    assert replace(TENSOR, queries=1).tensor == (4, 4 * 64)
    emulated = replace(TENSOR_FP4, arch="sm_90a", stages=4)
    assert emulated.shared_bytes - replace(emulated, arch="sm_100f").shared_bytes == 272 * 128 * 4
    for row in ROWS:
        config = MqaLogitsConfig(**row["config"])
        assert config.tensor[1] <= 512
        assert (config.tensor[0] > 0) == (config.mma == "tcgen05")


@pytest.mark.parametrize("arch", ["sm_100f", "sm_110f"])
def test_what_sm_100_and_thor_multiply_by(arch: str) -> None:
    """By their own tensor core, and nothing else."""
    actual = {(row["config"]["q"], *row["instructions"]) for row in ROWS if row["arch"] == arch}
    assert actual == {("e4m3", "UTCQMMA"), ("mxfp4", "UTCOMMA"), ("e4m3",)}  # a schedule has none


def test_what_emulates_the_tensor_core_has_no_instruction_of_it() -> None:
    emulated = [row for row in ROWS if row["name"].endswith("_tcgen05")]
    assert len(emulated) == 20
    assert {(row["arch"], *row["instructions"]) for row in emulated} == {("sm_90a",)}


def test_registers_are_those_of_products_and_weights() -> None:
    """mma.sync holds one piece at a time; FP4 kernels hold decoded keys, too."""
    assert [config.registers for config in (RAGGED, PAGED, FP4)] == [192, 48, 128]
    assert replace(SYNC, queries=2, pieces=2).registers == 32 + 32
    assert (TENSOR.registers, replace(TENSOR, heads=16, queries=8).registers) == (128 + 64, 128 + 32)


def test_names_say_what_differs() -> None:
    assert FAMILY.kernel_name(RAGGED) == "mqa_logits_sm90_ragged_64x128_f32_4q2p8r_2wg_8stages"
    assert FAMILY.kernel_name(replace(FP4, arch="sm_120f", mma="block_scaled", pdl=False)) == (
        "mqa_logits_sm120f_paged_fp4_64x128_f32_2q2p_2wg_8stages_nopdl"
    )
    assert FAMILY.kernel_name(replace(SYNC, arch="sm_90a")).endswith("_mmasync")
    assert FAMILY.kernel_name(TENSOR) == "mqa_logits_sm100f_ragged_64x128_f32_2q_2wg_8stages"
    assert FAMILY.kernel_name(replace(TENSOR_FP4, arch="sm_90a", stages=4)).endswith("_4stages_tcgen05")
    assert FAMILY.kernel_name(SCHEDULE) == "mqa_logits_sm100f_schedule"


def test_every_head_count_and_dimension_has_a_kernel_of_each_form() -> None:
    for arch in ("sm_90a", "sm_100f", "sm_110f", "sm_120f"):
        actual = {
            tuple(row["config"][name] for name in ("form", "q", "d", "heads", "head_dim"))
            for row in ROWS
            if row["arch"] == arch and row["config"]["form"] != "schedule"
        }
        expected = {
            (form, q, d, heads, head_dim)
            for form in ("ragged", "paged")
            for q, dims in (("e4m3", (32, 64, 128)), ("mxfp4", (64, 128)))
            for d in ("f32", "bf16")
            for heads in (16, 32, 64)
            for head_dim in dims
        }
        assert actual == expected
