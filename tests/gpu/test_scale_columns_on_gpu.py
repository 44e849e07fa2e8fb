"""`tilewright.scale_columns` on a GPU, bit for bit against what torch makes of the same scales."""

from __future__ import annotations

import itertools

import generated_kernels
import pytest
import torch

import tilewright
from tilewright import blockwise_scales
from tilewright.errors import NotBuiltError

kernel = generated_kernels.fixture("scale_columns", only=lambda record: record.config["writes"] == "columns")
# There is one such kernel for a GPU, and so every test is of it.
pytestmark = [pytest.mark.marks_kernels, pytest.mark.usefixtures("kernel")]

SHAPES = [(1, 1), (5, 3), (128, 56), (4097, 57), (33, 129), (4096, 1)]


def columns(scales: torch.Tensor, groups: torch.Tensor | None = None, **options: object) -> torch.Tensor:
    """The op, onto NaN; a test whose kernel is not built is skipped."""
    try:
        made = tilewright.scale_columns(scales, groups, **options)  # type: ignore[arg-type]
    except NotBuiltError as error:
        pytest.skip(error.message)
    out = torch.empty_like(made)
    out.view(torch.uint8).fill_(0x5A)
    assert tilewright.scale_columns(scales, groups, out=out, **options) is out  # type: ignore[arg-type]
    return out


def random(*shape: int) -> torch.Tensor:
    """Powers of two, from the least that a float32 holds as such to the largest."""
    return torch.randint(-126, 128, shape, device="cuda").double().exp2().float()


def codes(scales: torch.Tensor) -> torch.Tensor:
    return (scales.view(torch.int32) >> 23).to(torch.uint8)


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device="cuda")


@pytest.mark.parametrize("row_major", [True, False])
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("shape", SHAPES)
def test_without_groups(shape: tuple[int, int], batch: tuple[int, ...], row_major: bool) -> None:
    torch.manual_seed(0)
    scales = random(*batch, *shape)
    given = scales if row_major else scales.mT.contiguous().mT
    floats = blockwise_scales.with_padding(blockwise_scales.m_major(scales))
    words = blockwise_scales.with_padding(blockwise_scales.pack(codes(scales)))
    assert torch.equal(columns(given), floats)
    assert torch.equal(columns(given, layout="packed"), words)
    assert torch.equal(columns(given)[..., : shape[0]].mT, scales)


def test_strides_may_be_any() -> None:
    torch.manual_seed(0)
    wide = random(3, 70, 40)
    scales = wide[:, 1:68, 3:22]
    assert torch.equal(columns(scales), blockwise_scales.with_padding(blockwise_scales.m_major(scales)))
    turned = wide.mT[:, 2:29, 5:60]
    assert torch.equal(columns(turned), blockwise_scales.with_padding(blockwise_scales.m_major(turned)))


@pytest.mark.parametrize("alignment", [32, 128])
@pytest.mark.parametrize("layout", ["m_major", "packed"])
def test_padding_between_groups_of_rows_is_zero(layout: str, alignment: int) -> None:
    torch.manual_seed(0)
    sizes = [0, 1, 127, 128, 0, 129, 40]
    ends, start = [], 0
    for size in sizes:
        ends.append(start + size)
        start = -(-ends[-1] // alignment) * alignment
    scales = torch.full((start + alignment, 9), float("nan"), device="cuda")
    kept = torch.zeros_like(scales)
    for end, size in zip(ends, sizes, strict=True):
        scales[end - size : end] = kept[end - size : end] = random(size, 9)
    actual = columns(scales, ints(*ends), layout=layout, grouping="row_ends", alignment=alignment)
    expected = blockwise_scales.pack(codes(kept)) if layout == "packed" else blockwise_scales.m_major(kept)
    assert torch.equal(actual, blockwise_scales.with_padding(expected))


@pytest.mark.parametrize("row_major", [True, False])
@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize("count", [1, 5, 33, 128])
def test_words_of_groups_along_k_begin_anew(count: int, block: int, row_major: bool) -> None:
    torch.manual_seed(count)
    m, alignment = 68, 160
    counts = [int(each) for each in torch.randint(0, 10, (count,))] if count > 1 else [7]
    scales = random(m, sum(counts) + 3)  # what no group has is not read
    parts, first = [], 0
    for each in counts:
        if each:
            parts.append(blockwise_scales.pack(codes(scales[:, first : first + each].contiguous())).mT)
        first += each
    expected = torch.cat(parts)
    given = scales if row_major else scales.mT.contiguous().mT
    sizes = [max(each * block - block // 2, 0) if i % 2 else each * block for i, each in enumerate(counts)]
    ends, start = [], 0
    for size in sizes:
        ends.append(start + size)
        start = -(-ends[-1] // alignment) * alignment
    for groups, grouping in ((sizes, "k_sizes"), (ends, "k_ends")):
        actual = columns(
            given, ints(*groups), layout="packed", grouping=grouping, alignment=alignment, block=block
        )
        assert actual.shape[0] == -(-scales.shape[1] // 4) + count
        assert torch.equal(actual[: len(expected)], expected)
        assert not actual[len(expected) :].any()


@pytest.mark.parametrize("grouping", ["k_sizes", "k_ends"])
def test_groups_may_claim_more_than_there_is(grouping: str) -> None:
    """The sum of the last size and a block is no int: what there is counts, and nothing before it is read."""
    torch.manual_seed(0)
    scales = random(68, 9)
    groups = ints(3 * 128, 2**31 - 1, 2**31 - 1)
    actual = columns(scales, groups, layout="packed", grouping=grouping)
    parts = (scales[:, :3], scales[:, 3:])
    expected = torch.cat([blockwise_scales.pack(codes(part.contiguous())).mT for part in parts])
    assert torch.equal(actual[: len(expected)], expected)
    assert not actual[len(expected) :].any()


def test_a_group_of_rows_may_claim_more_than_there_is() -> None:
    torch.manual_seed(0)
    scales = random(200, 9)
    actual = columns(scales, ints(128, 2**31 - 1), grouping="row_ends")
    assert torch.equal(actual, columns(scales))


def test_a_graph_follows_the_groups() -> None:
    torch.manual_seed(0)
    scales, groups = random(256, 9), ints(100, 228)
    out = columns(scales, groups, grouping="row_ends")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tilewright.scale_columns(scales, groups, grouping="row_ends", out=out)
    for ends in itertools.permutations((10, 200, 256), 2):
        groups.copy_(ints(*sorted(ends)))
        graph.replay()
        assert torch.equal(out, tilewright.scale_columns(scales, groups, grouping="row_ends"))


def test_what_quantising_makes_packed_is_the_same() -> None:
    torch.manual_seed(0)
    x = torch.randn(200, 1024, device="cuda", dtype=torch.bfloat16)
    try:
        _, packed = tilewright.quantize_fp8_blockwise(x, scale_type="ue8m0")
    except NotBuiltError as error:
        pytest.skip(error.message)
    scales = blockwise_scales.unpack(packed, 8).float()
    assert torch.equal(columns(scales, layout="packed"), blockwise_scales.with_padding(packed))


@pytest.mark.parametrize("layout", ["m_major", "packed"])
def test_nothing_beside_the_result_is_written(layout: str) -> None:
    torch.manual_seed(0)
    scales = random(5, 9)
    expected = columns(scales, layout=layout)
    wide = torch.full((len(expected), 24), 7, dtype=expected.dtype, device="cuda")
    tilewright.scale_columns(scales, layout=layout, out=wide[:, 4:12])
    assert torch.equal(wide[:, 4:12], expected)
    assert (wide[:, :4] == 7).all()
    assert (wide[:, 12:] == 7).all()
