"""Scaled and grouped products end to end, on kernels of the host: every grouping against the definition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from grouped_rows import make_grouped_row

import tilewright
from tilewright import reference
from tilewright.architectures.device import H200
from tilewright.context import Context
from tilewright.declarations.table import KernelRecord
from tilewright.errors import AlignmentError, ArgumentError, ArgumentTypeError, WrongResultError
from tilewright.families.grouped_gemm import cost, measuring
from tilewright.families.grouped_gemm.family import FAMILY
from tilewright.families.grouped_gemm.problem import Problem

BF16 = {"a": "bf16", "b": "bf16", "scales": "none"}


def operands(**fields: Any) -> measuring.Operands:
    problem = Problem(**{"m": 36, "n": 144, "k": 208, "groups": 3, "row_alignment": 4, **fields})
    return measuring.make(problem, torch.Generator().manual_seed(1))


@pytest.mark.parametrize("c", [False, True], ids=["plain", "c"])
@pytest.mark.parametrize("d", ["bf16", "f32"])
@pytest.mark.parametrize("grouping", ["none", "row_index", "ends", "rows_valid"])
@pytest.mark.parametrize(
    "types", [{"scales": "128x128"}, {"scales": "1x128"}, BF16], ids=["128x128", "1x128", "bf16"]
)
def test_every_grouping_is_what_the_definition_says(
    grouped: Context, types: dict[str, Any], grouping: str, d: str, c: bool
) -> None:
    if grouping == "none" and types is BF16:
        pytest.skip("tilewright.gemm computes it")
    made = operands(grouping=grouping, d=d, c=c, expected_m=9, **types)
    made.poison()
    assert made.call() is made.out
    made.check()


@pytest.mark.parametrize("grouping", ["row_index", "ends", "rows_valid"])
def test_weights_of_16_bits_may_be_row_major(grouped: Context, grouping: str) -> None:
    made = operands(grouping=grouping, layout="tt", **BF16)
    assert made.b.is_contiguous()
    made.poison()
    made.call()
    made.check()


def test_row_major_fp8_is_refused(grouped: Context) -> None:
    made = operands(grouping="rows_valid")
    with pytest.raises(AlignmentError, match=r"b: .*no contiguous columns"):
        tilewright.grouped_gemm_masked(
            made.a, made.b.contiguous(), made.rows_valid, made.scale_a, made.scale_b
        )


@pytest.mark.parametrize("c", [False, True], ids=["plain", "c"])
@pytest.mark.parametrize("types", [{"scales": "1x128"}, {**BF16, "layout": "nt"}], ids=["fp8", "bf16"])
def test_parts_of_k(grouped: Context, types: dict[str, Any], c: bool) -> None:
    made = operands(m=40, grouping="k_sizes", k=640, d="f32", c=c, **types)
    made.group_k.copy_(torch.tensor([384, 0, 256]))
    made.poison()
    assert made.call() is made.out
    assert made.out.shape == (3, 40, 144)
    made.check()
    assert torch.equal(made.out[1], torch.zeros(40, 144) if made.c is None else made.c[1])


def test_the_check_of_measurements_sees_a_missing_factor(grouped: Context) -> None:
    made = operands(grouping="ends")
    made.call()
    assert made.scale_b is not None
    made.scale_b[1] *= 1.01
    with pytest.raises(WrongResultError, match="norm ratio"):
        made.check()


def test_ends_outside_of_the_rows_count_as_the_nearest_row() -> None:
    """As the kernels read them: a number below 0 counts nothing from the last row."""
    ends = torch.tensor([-(2**31), -1, 3, 2**31 - 1, 2**31 - 1], dtype=torch.int32)
    assert reference.groups_of_rows(ends, 6, 1).tolist() == [2, 2, 2, 3, 3, 3]


def test_groups_of_rows_begin_at_multiples_and_leave_padding() -> None:
    actual = reference.groups_of_rows(torch.tensor([3, 4, 4, 9], dtype=torch.int32), 12, 4)
    assert actual.tolist() == [0, 0, 0, -1, 3, 3, 3, 3, 3, -1, -1, -1]


def test_scales_of_b_may_lie_either_way(grouped: Context) -> None:
    made = operands(grouping="rows_valid")
    first = made.call().clone()
    assert made.scale_b is not None
    made.scale_b = made.scale_b.contiguous()  # [groups, k/128, n/128] with n contiguous
    made.poison()
    counts = made.rows_valid
    for group, count in enumerate(counts.tolist()):
        assert torch.equal(made.call()[group, :count], first[group, :count])


def test_one_matrix_serves_every_batch(grouped: Context) -> None:
    made = operands()
    shared = made.a[:1].expand_as(made.a)
    assert made.scale_a is not None
    assert made.scale_b is not None
    scales = made.scale_a[:1].expand_as(made.scale_a)
    actual = tilewright.scaled_gemm(shared, made.b, scales, made.scale_b)
    for i in range(3):
        expected = tilewright.scaled_gemm(made.a[0], made.b[i], made.scale_a[0], made.scale_b[i])
        assert torch.equal(actual[i], expected)


@pytest.mark.parametrize("with_c", [False, True])
def test_k_of_zero_answers_c_or_zeros(grouped: Context, with_c: bool) -> None:
    a, b = torch.empty(4, 0, dtype=torch.bfloat16), torch.empty(2, 0, 16, dtype=torch.bfloat16)
    c = torch.ones(4, 16, dtype=torch.bfloat16) if with_c else None
    index = torch.zeros(4, dtype=torch.int32)
    actual = tilewright.grouped_gemm_contiguous(a, b, group_of_row=index, c=c)
    assert torch.equal(actual, torch.full((4, 16), float(with_c), dtype=torch.bfloat16))


def test_c_may_be_out(grouped: Context) -> None:
    made = operands(grouping="row_index", d="f32")
    product = made.call().clone()
    made.out.fill_(2.0)
    made.c = made.out
    made.call()
    counts = made.groups() >= 0
    assert torch.allclose(made.out[counts], product[counts] + 2.0)


class TestRefusals:
    def test_parts_of_k_that_no_stage_divides(self, grouped: Context) -> None:
        for k, types in ((640 + 64, {"scales": "1x128"}), (640 + 32, {**BF16, "layout": "nt"})):
            with pytest.raises(ArgumentError, match=rf"expected a multiple of \d+ for k, got {k}"):
                operands(grouping="k_sizes", k=k, d="f32", **types).call()

    def test_rows_of_parts_that_have_k_contiguous(self, grouped: Context) -> None:
        made = operands(grouping="k_sizes", k=640, d="f32", **BF16, layout="nt")
        with pytest.raises(AlignmentError, match=r"a: .*no contiguous columns"):
            tilewright.grouped_gemm_k(made.a.contiguous(), made.b, made.group_k)

    def test_padding_that_is_to_be_zeroed_or_not(self, grouped: Context) -> None:
        made = operands(grouping="row_index")
        for zero in (1, None):
            with pytest.raises(ArgumentError, match="zero_padding: "):
                tilewright.grouped_gemm_contiguous(
                    made.a, made.b, made.scale_a, made.scale_b, **made.layout, zero_padding=zero
                )

    def test_fp8_without_scales(self, grouped: Context) -> None:
        made = operands(grouping="row_index")
        with pytest.raises(ArgumentError, match="scale_a: it is None; expected a tensor for e4m3"):
            tilewright.grouped_gemm_contiguous(made.a, made.b, **made.layout)

    def test_bf16_with_scales(self, grouped: Context) -> None:
        made, fp8 = operands(grouping="row_index", **BF16), operands(grouping="row_index")
        with pytest.raises(ArgumentError, match="expected None for bf16 x bf16 -> bf16, grouping row"):
            tilewright.grouped_gemm_contiguous(made.a, made.b, fp8.scale_a, fp8.scale_b, **made.layout)

    def test_scaled_gemm_of_bf16(self, grouped: Context) -> None:
        made, fp8 = operands(grouping="row_index", **BF16), operands(grouping="row_index")
        for scales in ((fp8.scale_a, fp8.scale_b), (None, None)):
            argument = "a: its dtype is torch.bfloat16; expected" if scales[0] is not None else "scale_a: "
            with pytest.raises(ArgumentTypeError, match=argument):
                tilewright.scaled_gemm(made.a, made.b, *scales)

    def test_no_groups_or_two_of_them(self, grouped: Context) -> None:
        made, other = operands(grouping="row_index"), operands(grouping="ends")
        for layout, actual in (({}, "neither"), ({**made.layout, **other.layout}, "both")):
            with pytest.raises(ArgumentError, match=f"expected either .* or group_ends, got {actual}"):
                tilewright.grouped_gemm_contiguous(made.a, made.b, made.scale_a, made.scale_b, **layout)

    def test_groups_of_another_type(self, grouped: Context) -> None:
        made = operands(grouping="rows_valid")
        with pytest.raises(ArgumentTypeError, match=r"rows_valid: its dtype is torch.int64; expected int32"):
            tilewright.grouped_gemm_masked(made.a, made.b, made.rows_valid.long(), made.scale_a, made.scale_b)

    def test_operands_in_deep_gemms_order(self, grouped: Context) -> None:
        """`rows_valid` stands last there. Its int32, taken for packed scales, must not decide the message."""
        made = operands(grouping="rows_valid")
        with pytest.raises(
            ArgumentTypeError, match=r"^rows_valid: its dtype is torch.float32; expected int32"
        ):
            tilewright.grouped_gemm_masked(made.a, made.b, made.scale_a, made.scale_b, made.rows_valid)

    def test_row_major_scales(self, grouped: Context) -> None:
        made = operands(grouping="rows_valid", m=37)
        made.poison()
        rows, b = made.scale_a.contiguous(), (made.b, made.rows_valid)
        with pytest.raises(ArgumentError, match=r"scale_a: .* expected contiguous columns") as caught:
            tilewright.grouped_gemm_masked(made.a, *b, rows, made.scale_b)
        assert (
            caught.value.hint
            == "tilewright.blockwise_scales.m_major(scale_a) copies scales into this layout."
        )
        columns = tilewright.blockwise_scales.m_major(rows)
        tilewright.grouped_gemm_masked(made.a, *b, columns, made.scale_b, out=made.out)
        made.check()

    def test_scales_that_tma_cannot_read(self, grouped: Context) -> None:
        made = operands(grouping="row_index", m=37)
        assert made.scale_a is not None
        packed = made.scale_a.mT.contiguous().mT  # columns follow each other: 37 floats apart
        with pytest.raises(AlignmentError, match=r"(?s)scale_a: .*begin at multiples of 16"):
            tilewright.grouped_gemm_contiguous(made.a, made.b, packed, made.scale_b, **made.layout)

    @pytest.mark.parametrize("given", [0, -1, True])
    def test_an_alignment_that_is_none(self, grouped: Context, given: Any) -> None:
        made = operands(grouping="ends")
        with pytest.raises(ArgumentError, match=r"row_alignment: it is"):
            tilewright.grouped_gemm_contiguous(
                made.a, made.b, made.scale_a, made.scale_b, row_alignment=given, **made.layout
            )

    def test_groups_that_begin_where_tma_reads_no_factors(self, grouped: Context) -> None:
        with pytest.raises(
            ArgumentError, match=r"row_alignment: expected a multiple of 4 beside scale factors, got 2"
        ):
            operands(grouping="ends", row_alignment=2).call()
        operands(grouping="ends", row_alignment=2, **BF16).call()


def record(**fields: Any) -> KernelRecord:
    return KernelRecord.parse(make_grouped_row("some", **fields))


class TestModel:
    PROBLEM = Problem(m=4096, n=7168, k=2048, groups=32, grouping="rows_valid", expected_m=20)

    def test_rows_that_are_not_expected_cost_nothing(self) -> None:
        assert cost.tiles_down(self.PROBLEM, 128) == 32
        assert cost.tiles_down(replace(self.PROBLEM, expected_m=0), 128) == 32 * 32
        # Half of the shares of 150 rows are more than 128.
        assert cost.tiles_down(replace(self.PROBLEM, expected_m=150), 128) == 32 * 1.5

    def test_rows_that_vary_have_several_likely_numbers_of_tiles(self) -> None:
        """One or two tiles of each group: for 32 groups 48, give or take sqrt(32 * 3 / 2) / 2."""
        problem = replace(self.PROBLEM, expected_m=150)
        fewest, mean, most = cost.likely_tiles(problem, 128)
        assert (fewest + most) / 2 == mean == cost.tiles_down(problem, 128)
        assert most - mean == pytest.approx(12**0.5)
        lone = cost.likely_tiles(replace(problem, groups=1), 128)
        assert lone == pytest.approx((1, 1.5, 1.5 + 0.375**0.5))  # a group has a tile at least
        assert cost.likely_tiles(replace(problem, expected_m=20), 128) == (32,)  # one tile of each
        for grouping in ("none", "row_index", "ends"):
            certain = replace(problem, grouping=grouping)
            assert cost.likely_tiles(certain, 128) == (cost.tiles_down(certain, 128),)

    def test_no_more_rows_are_expected_than_there_are(self) -> None:
        rows = [replace(self.PROBLEM, expected_m=m).rows for m in (20, 4096, 9999, 0)]
        assert rows == [32 * 20, 32 * 4096, 32 * 4096, 32 * 4096]

    def test_rows_of_groups_by_their_ends_that_are_not_expected(self) -> None:
        """32 groups of 20 rows, each at a multiple of 128, take 32 tiles of 128 rows and not 64."""
        problem = Problem(m=8192, n=512, k=512, groups=32, grouping="ends", expected_m=20)
        assert (problem.rows, problem.rows_in_place) == (32 * 20, 32 * 128)
        assert cost.tiles_down(problem, 128) == 32
        assert cost.group_rows(problem) == 128
        assert cost.tiles_down(replace(problem, expected_m=0), 128) == 64
        assert cost.tiles_down(replace(problem, expected_m=9000), 128) == 64
        by_index = replace(problem, grouping="row_index")
        assert (by_index.rows, cost.tiles_down(by_index, 128)) == (8192, 64)

    def test_tiles_that_groups_do_not_begin_with_are_computed_twice(self) -> None:
        problem = Problem(m=4096, n=512, k=512, groups=8, grouping="row_index")
        assert cost.tiles_down(problem, 128) == 32
        assert cost.tiles_down(problem, 256) == 16 + 7
        assert cost.tiles_down(replace(problem, row_alignment=1), 128) == 32 + 7

    def test_few_rows_want_swapped_operands(self) -> None:
        wide, narrow = record(), record(swap_ab=True, tile=[128, 32, 256])
        times = []
        for kernel in (wide, narrow):
            weigh = cost.estimator(kernel, self.PROBLEM, H200)
            assert weigh is not None
            times.append(
                min(weigh(tactic).seconds for tactic in FAMILY.candidates(kernel, self.PROBLEM, H200))
            )
        assert times[1] < times[0]

    def test_clusters_of_grouped_rows_share_no_b(self) -> None:
        for swapped, legal in ((False, {"", "1x2", "1x4"}), (True, {"", "2x1", "4x1"})):
            tactics = FAMILY.candidates(record(swap_ab=swapped), self.PROBLEM, H200)
            assert {tactic.cluster for tactic in tactics} == legal


@pytest.mark.parametrize("number", [2**30 + 4, 2**31, 2**32, 2**32 + 128, 10**30])
def test_numbers_that_no_int_of_32_bits_holds_are_refused(grouped: Context, number: int) -> None:
    """A kernel would get 128 for 2**32 + 128, and for 2**32 a 0 to divide by."""
    fp8, scale = torch.float8_e4m3fn, torch.ones(1, 1)
    a, b = torch.ones(8, 128).to(fp8), torch.ones(16, 128).to(fp8).mT
    rows, ends = scale.expand(8, 1).mT.contiguous().mT, torch.tensor([8], dtype=torch.int32)
    with pytest.raises(ArgumentError, match=r"row_alignment: it is .* expected at most 1073741824"):
        tilewright.grouped_gemm_contiguous(
            a, b[None], rows, scale[None], group_ends=ends, row_alignment=number
        )
    with pytest.raises(ArgumentError, match=r"head_gap: it is .* expected at most 1073741824"):
        tilewright.scaled_gemm(a, b, rows, scale, head_left=8, head_gap=number)
    # Each number is one that there may be, and the result's columns are not.
    with pytest.raises(ArgumentError, match=r"out: an extent of the result, .* expected at most 1073741824"):
        tilewright.scaled_gemm(a, b, rows, scale, head_left=8, head_gap=2**29)


def test_groups_may_begin_at_the_largest_multiple(grouped: Context) -> None:
    a, b = torch.randn(40, 64).bfloat16(), torch.randn(2, 24, 64).bfloat16().mT
    ends = torch.tensor([32, 40], dtype=torch.int32)
    made = tilewright.grouped_gemm_contiguous(a, b, group_ends=ends, row_alignment=2**30)
    torch.testing.assert_close(made[:32], a[:32] @ b[0])
