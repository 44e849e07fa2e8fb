"""The quantising ops on a GPU: sizes, addresses and numbers that do not depend on one kernel."""

from __future__ import annotations

import math
from typing import Any

import pytest
import quantize_comparison as comparison
import quantize_inputs as inputs
import quantize_reference as of
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright
from tilewright import context, reference, row_shuffle, scale_factors
from tilewright.architectures.device import H200
from tilewright.errors import ArgumentError
from tilewright.families.quantize import measuring
from tilewright.families.quantize.family import FAMILY
from tilewright.families.quantize.problem import Problem
from tilewright.formats.dtypes import dtype_of

pytestmark = pytest.mark.marks_kernels

# The norm of what quantising normal numbers loses, relative to theirs: at most.
LOSS = {"nvfp4": 0.11, "mxfp4": 0.15, "mxfp8": 0.035, "mxfp8_e5m2": 0.07}


@settings(max_examples=150, deadline=None, database=None)
@given(
    st.sampled_from(of.combinations()),
    st.integers(1, 700),
    st.integers(1, 130),
    st.integers(0, 3),
    st.integers(0, 2),
    st.sampled_from(["none", "tensor", "row"]),
    st.integers(0, 10**6),
)
def test_random_sizes(  # noqa: PLR0917 (as drawn)
    pair: tuple[str, str], m: int, blocks: int, groups: int, layout: int, scale: str, seed: int
) -> None:
    """Stacks of matrices (0: no stack), of which as many rows as come count."""
    name, x = pair
    lead = (groups,) if groups else ()
    m = m if groups < 2 else -(-m // groups)
    value = inputs.randoms((*lead, m, 16 * blocks), x, seed)
    generator = torch.Generator("cuda").manual_seed(seed)
    global_scale: Any = None
    if name == "nvfp4" and scale != "none":
        count = (1,) if scale == "tensor" else (*lead, m)
        global_scale = torch.exp2(torch.rand(count, generator=generator, device="cuda") * 20 - 6)
    valid = None
    if groups and seed % 2:
        valid = torch.randint(-1, m + 2, (groups,), generator=generator, device="cuda", dtype=torch.int32)
        valid = valid.clamp(0, m)
    layouts = of.layouts_of(name)
    of.Case(name, value, layouts[layout % len(layouts)], global_scale, valid).check()


@pytest.mark.parametrize(("name", "x"), of.combinations())
def test_everything_selected_is_exact(name: str, x: str) -> None:
    for shape in ((1, 16), (129, 80), (512, 4096), (4096, 1024)):
        for case in of.cases(name, x, shape):
            case.check()
    for case in (*of.masked(name, x), *of.every_input(name, x)[:4]):
        case.check()


def test_the_longest_rows() -> None:
    """2 GB in one: an int does not count its bytes."""
    x = torch.randn(2**20, device="cuda").bfloat16().repeat(2**10).view(1, 2**30)
    for variant in ("vector", "tma_2stages"):
        tactic = f"quantize_sm90_nvfp4_bf16_{variant}"
        data, scales = tilewright.quantize_nvfp4(x, 500.0, layout="linear", tactic=tactic)
        first, first_scales = reference.quantize(x[:, : 2**20], "nvfp4", 500.0, "linear")
        assert torch.equal(data.view(2**10, -1), first.expand(2**10, -1))
        assert torch.equal(
            scales.view(torch.uint8).view(2**10, -1), first_scales.view(torch.uint8).expand(2**10, -1)
        )


def test_forms_of_a_global_scale() -> None:
    x = inputs.randoms((3, 40, 64), "bf16")
    flat = x[0]
    scales = [
        37.25,
        torch.tensor(37.25),
        torch.tensor([37.25], dtype=torch.float64),
        torch.tensor([[37.25]], device="cuda"),
    ]
    for scale in scales:
        for _ in range(2):
            actual, found_scales = tilewright.quantize_nvfp4(flat, scale)
            expected, wanted_scales = reference.quantize(flat, "nvfp4", 37.25)
            comparison.compare(actual, expected, "data")
            comparison.compare(of.as_bytes(found_scales), of.as_bytes(wanted_scales), "scales")
    per_group = torch.tensor([3.0, 50.0, 7.0])
    rows = per_group.cuda()[:, None].expand(3, 40).contiguous()
    expected, wanted_scales = reference.quantize(x, "nvfp4", rows)
    for scale in (per_group, per_group.cuda(), rows, rows.cpu(), rows.cpu().pin_memory()):
        actual, found_scales = tilewright.quantize_nvfp4(x, scale)
        comparison.compare(actual, expected, "data")
        comparison.compare(of.as_bytes(found_scales), of.as_bytes(wanted_scales), "scales")


@pytest.mark.parametrize("name", ["nvfp4", "mxfp4", "mxfp8"])
def test_shuffled_rows(name: str) -> None:
    x = inputs.randoms((256, 256), "bf16")
    op = getattr(tilewright, f"quantize_{name}")
    data, scales = op(x, shuffle=True)
    plain, plain_scales = reference.quantize(x, name, layout="linear")
    comparison.compare(of.as_bytes(data), row_shuffle.shuffle_rows(of.as_bytes(plain)), "data")
    expected = scale_factors.swizzle(row_shuffle.shuffle_rows(of.as_bytes(plain_scales)))
    comparison.compare(of.as_bytes(scales), expected, "scales")


@pytest.mark.parametrize("layout", scale_factors.LAYOUTS)
def test_at_any_address_and_pitch(layout: str) -> None:
    x = inputs.randoms((129, 80), "bf16")
    expected, wanted_scales = reference.quantize(x, "nvfp4", layout=layout)  # type: ignore[arg-type]
    for offset, pitch in ((0, 80), (8, 88), (1, 80), (3, 83), (16, 96)):
        room = torch.zeros(offset + 129 * pitch + 64, dtype=torch.bfloat16, device="cuda")
        within = room[offset : offset + 129 * pitch].view(129, pitch)[:, :80].copy_(x)
        actual, found_scales = tilewright.quantize_nvfp4(within, layout=layout)
        comparison.compare(actual, expected, f"offset {offset}, pitch {pitch}")
        comparison.compare(of.as_bytes(found_scales), of.as_bytes(wanted_scales), "scales")
    for offset in (0, 1, 4, 8, 16):
        room = torch.full((expected.numel() + 64,), of.POISON, dtype=torch.uint8, device="cuda")
        room_scales = torch.full((wanted_scales.numel() + 64,), of.POISON, dtype=torch.uint8, device="cuda")
        out = room[offset : offset + expected.numel()].view(expected.shape)
        out_scales = room_scales[offset : offset + wanted_scales.numel()].view(wanted_scales.shape)
        actual, _ = tilewright.quantize_nvfp4(x, layout=layout, out=out, out_scales=out_scales)
        assert actual is out
        comparison.compare(out, expected, f"offset {offset}")
        comparison.compare(out_scales, of.as_bytes(wanted_scales), "scales")
        assert int((room == of.POISON).sum()) >= 64
        assert bool((room[:offset] == of.POISON).all())
        assert bool((room[offset + expected.numel() :] == of.POISON).all())
        assert bool((room_scales[offset + wanted_scales.numel() :] == of.POISON).all())


def test_column_major_x_is_copied() -> None:
    x = inputs.randoms((96, 128), "bf16")
    actual, _ = tilewright.quantize_mxfp8(x.t().contiguous().t())
    comparison.compare(of.as_bytes(actual), of.as_bytes(reference.quantize(x, "mxfp8")[0]), "data")


MULTIPLY = {"nvfp4": "mm_nvfp4", "mxfp4": "mm_mxfp4", "mxfp8": "mm_mxfp8"}


@pytest.mark.parametrize("shape", [(16, 256, 512), (129, 520, 4096), (64, 1024, 7168)])
@pytest.mark.parametrize("name", MULTIPLY)
def test_a_round_trip_through_the_product(name: str, shape: tuple[int, int, int]) -> None:
    """Quantise, multiply, and compare with the product of the originals in float64: what is lost is what the
    two operands lost, which is what the format loses of normal numbers."""
    m, n, k = shape
    generator = torch.Generator("cuda").manual_seed(m)
    a, b = (torch.randn(rows, k, generator=generator, device="cuda").bfloat16() for rows in (m, n))
    options: list[dict[str, Any]] = [{}, {}]
    alpha = None
    if name == "nvfp4":
        options = [{"global_scale": reference.nvfp4_global_scale(x)} for x in (a, b)]
        alpha = (1 / (options[0]["global_scale"] * options[1]["global_scale"])).reshape(1)
    quantize = getattr(tilewright, f"quantize_{name}")
    dequantize = getattr(tilewright, f"dequantize_{name}")
    stored = [quantize(x, **more) for x, more in zip((a, b), options, strict=True)]
    losses = []
    for x, (data, scales), more in zip((a, b), stored, options, strict=True):
        back = dequantize(data, scales, dtype=torch.float32, **more).double()
        losses.append(float((back - x.double()).norm() / x.double().norm()))
    assert max(losses) <= LOSS[name], losses
    d = getattr(tilewright, MULTIPLY[name])(
        stored[0][0], stored[1][0].T, stored[0][1], stored[1][1], alpha, torch.float32
    )
    exact = a.double() @ b.double().T
    error = float((d.double() - exact).norm() / exact.norm())
    assert 0.5 * math.hypot(*losses) <= error <= 1.1 * math.hypot(*losses), (error, losses)
    cosine = float(torch.nn.functional.cosine_similarity(d.double().flatten(), exact.flatten(), dim=0))
    assert cosine > 1 - math.hypot(*losses) ** 2, cosine
    assert abs(float(d.double().norm() / exact.norm()) - 1) < 0.01 + math.hypot(*losses) ** 2


@pytest.mark.parametrize("x", ["bf16", "e4m3"])
def test_more_than_2_to_the_32_elements(x: str) -> None:
    """131072 x 32768, and one row and one block more."""
    problem = Problem(131073, 32784, x=x, global_scale="tensor")
    if torch.cuda.mem_get_info()[0] < 6 * problem.bytes:
        pytest.skip(f"{problem} and its check take {6 * problem.bytes / 1e9:.0f} GB")
    value = torch.empty(problem.m, problem.k, dtype=dtype_of(x), device="cuda")
    for part in value.split(8192):
        part.copy_(inputs.to_type(torch.randn(part.shape, device="cuda"), x))
    operands = measuring.operands(problem, x=value, global_scale=torch.full((1,), 448.0, device="cuda"))
    operands.call()
    registry = context.current().registry
    kernels = registry.route("quantize", context.current().device(torch.cuda.current_device()))
    for record in FAMILY.fitting(kernels, problem):
        operands.poison()
        operands.call(FAMILY.candidates(record, problem, H200)[-1])
        assert operands.check() < LOSS["nvfp4"]
        expected = reference.quantize(value[-3:], "nvfp4", 448.0, "linear")
        comparison.compare(operands.out[-3:], expected[0], f"{record.name}: the last rows")


def test_nothing_to_do() -> None:
    for shape in ((0, 64), (5, 0), (0, 8, 64), (2, 0, 64)):
        data, scales = tilewright.quantize_nvfp4(torch.zeros(shape, dtype=torch.bfloat16, device="cuda"))
        assert data.numel() == scales.numel() == 0
        assert tilewright.dequantize_nvfp4(data, scales).shape == shape


def test_refusals() -> None:
    x = torch.zeros(64, 64, dtype=torch.bfloat16, device="cuda")
    with pytest.raises(ArgumentError, match="overlaps"):
        tilewright.quantize_nvfp4(x, out=x.view(torch.uint8)[:, :32])
    with pytest.raises(ArgumentError, match="rows_valid: it is on cpu"):
        tilewright.quantize_nvfp4(x, rows_valid=torch.ones(1, dtype=torch.int32))
    with pytest.raises(ArgumentError, match="k is 40"):
        tilewright.quantize_nvfp4(x[:, :40])


def test_measuring_sees_what_is_wrong() -> None:
    problem = Problem(300, 512, global_scale="tensor")
    operands = measuring.make(problem, torch.Generator("cuda"))
    operands.call()
    assert operands.check() < LOSS["nvfp4"]
    other = operands.changed(global_scale=torch.full((1,), 440.0, device="cuda"))
    with pytest.raises(tilewright.TilewrightError, match="differ from the reference"):
        other.check()
