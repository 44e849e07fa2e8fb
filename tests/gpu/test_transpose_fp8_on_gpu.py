"""`tilewright.transpose_fp8` on a GPU: every byte against torch's, and nothing beside."""

from __future__ import annotations

import generated_kernels
import pytest
import torch

import tilewright
from tilewright.errors import NotBuiltError

kernel = generated_kernels.fixture("transpose_fp8")
# There is one for a GPU, and so every test is of it.
pytestmark = [pytest.mark.marks_kernels, pytest.mark.usefixtures("kernel")]

SHAPES = [
    (1, 1),
    (128, 128),
    (127, 129),
    (130, 16),
    (16, 300),
    (1000, 1),
    (1, 1000),
    (777, 1040),
    (2048, 4096),
]
POISON = 0x5A


def fp8(*shape: int, dtype: torch.dtype = torch.float8_e4m3fn) -> torch.Tensor:
    return torch.randint(256, shape, dtype=torch.uint8, device="cuda").view(dtype)


def as_bytes(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.uint8)


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device="cuda")


def transposed(x: torch.Tensor, groups: torch.Tensor | None = None) -> torch.Tensor:
    """The op's bytes, onto poison; a test whose kernel is not built is skipped."""
    try:
        made = tilewright.transpose_fp8(x, groups)
    except NotBuiltError as error:
        pytest.skip(error.message)
    out = torch.full_like(as_bytes(made), POISON).view(x.dtype)
    assert tilewright.transpose_fp8(x, groups, out=out) is out
    return as_bytes(out)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("shape", SHAPES)
def test_columns_become_rows(shape: tuple[int, int], batch: tuple[int, ...], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = fp8(*batch, *shape, dtype=dtype)
    assert torch.equal(transposed(x), as_bytes(x).mT)


@pytest.mark.parametrize("first", [0, 1, 16])
@pytest.mark.parametrize("step", [1040, 1047])
def test_any_stride_and_address(first: int, step: int) -> None:
    """Rows of a wider tensor, to rows of a wider one; what lies beside them stays."""
    torch.manual_seed(0)
    x = fp8(300, step)[:, first : first + 200]
    try:
        tilewright.transpose_fp8(x)
    except NotBuiltError as error:
        pytest.skip(error.message)
    wide = torch.full((202, step), POISON, dtype=torch.uint8, device="cuda")
    out = wide[1:201, first : first + 300]
    tilewright.transpose_fp8(x, out=out.view(x.dtype))
    assert torch.equal(out, as_bytes(x).mT)
    out.fill_(POISON)
    assert bool((wide == POISON).all())


def test_heads_of_a_batch_of_tokens() -> None:
    """[b, h, d] as [h, d, b]: matrices lie side by side."""
    torch.manual_seed(0)
    x = fp8(256, 5, 64)
    assert torch.equal(transposed(x.transpose(0, 1)), as_bytes(x).permute(1, 2, 0))


@pytest.mark.parametrize("columns", [16, 136, 1024])
@pytest.mark.parametrize("sizes", [(128,), (0, 256, 0, 128), (384, 128, 0), tuple([128, 0] * 40)])
def test_groups_lie_one_behind_the_other(sizes: tuple[int, ...], columns: int) -> None:
    torch.manual_seed(0)
    x = fp8(sum(sizes), columns)
    expected = torch.cat([part.mT.flatten() for part in as_bytes(x).split(list(sizes))])
    assert torch.equal(transposed(x, ints(*sizes)).flatten(), expected)


def test_rows_of_no_group_are_not_written() -> None:
    torch.manual_seed(0)
    x = fp8(512, 64)
    actual = transposed(x, ints(128, 128)).flatten()
    expected = torch.cat([part.mT.flatten() for part in as_bytes(x)[:256].split(128)])
    assert torch.equal(actual[: len(expected)], expected)
    assert bool((actual[len(expected) :] == POISON).all())


@pytest.mark.parametrize(
    "sizes", [(128, 1280), (128, 2**31 - 128), (128, 2**31 - 128, 256, 2**31 - 128, 128)]
)
def test_sizes_that_add_up_to_more_stay_within_the_matrix(sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    room = torch.full((64 * 384 + 4096,), POISON, dtype=torch.uint8, device="cuda")
    x, out = fp8(384, 64), room[: 64 * 384].view(64, 384).view(torch.float8_e4m3fn)
    try:
        tilewright.transpose_fp8(x, ints(*sizes), out=out)
    except NotBuiltError as error:
        pytest.skip(error.message)
    assert torch.equal(room[: 64 * 128].view(64, 128), as_bytes(x)[:128].mT)
    assert torch.equal(room[64 * 128 : 64 * 384].view(64, 256), as_bytes(x)[128:].mT)
    assert bool((room[64 * 384 :] == POISON).all())


def test_a_graph_follows_the_groups() -> None:
    torch.manual_seed(0)
    x, sizes = fp8(512, 144), ints(128, 384)
    out = transposed(x, sizes).view(x.dtype)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tilewright.transpose_fp8(x, sizes, out=out)
    for given in ((384, 128), (0, 512), (256, 256)):
        sizes.copy_(ints(*given))
        as_bytes(out).fill_(POISON)
        graph.replay()
        expected = torch.cat([part.mT.flatten() for part in as_bytes(x).split(list(given))])
        assert torch.equal(as_bytes(out).flatten(), expected)


def test_each_call_reads_what_the_one_before_wrote() -> None:
    """With programmatic launch: there and back, many times."""
    torch.manual_seed(0)
    x = fp8(2048, 1536)
    there, back = transposed(x).view(x.dtype), torch.empty_like(x)
    for step in range(20):
        expected = as_bytes(x).roll(step).contiguous()
        as_bytes(back).copy_(expected)
        tilewright.transpose_fp8(back, out=there)
        as_bytes(back).fill_(POISON)
        tilewright.transpose_fp8(there, out=back)
        assert torch.equal(as_bytes(back), expected)
