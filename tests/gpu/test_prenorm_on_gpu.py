"""`tilewright.hc_prenorm` on a GPU, as it is called."""

from __future__ import annotations

import prenorm_reference
import pytest
import torch

import tilewright
from tilewright.families.hc_prenorm.reference import reference, tf32


def operands(m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator("cuda").manual_seed(m)
    a = torch.randn((m, k), generator=generator, device="cuda").bfloat16()
    return a, torch.randn((n, k), generator=generator, device="cuda")


@pytest.mark.parametrize("m", [13, 137, 4096, 8192])
@pytest.mark.parametrize("k", [28672, 7680, 7168])
@pytest.mark.parametrize("splits", [None, 16])
def test_deep_gemms_shapes(m: int, k: int, splits: int | None) -> None:
    """By DeepGEMM's threshold, against torch's product in TF32 as its test has it, and in float64."""
    a, b = operands(m, 24, k)
    out, squares = tilewright.hc_prenorm(a, b, splits=splits)
    if splits is not None:
        out, squares = out.sum(0), squares.sum(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    prenorm_reference.compare(out, (a.float() @ b.T).double(), "torch")
    rows = slice(None, None, max(1, m // 512))
    expected = reference(a[rows], b)
    prenorm_reference.compare(out[rows], expected[0], "D")
    prenorm_reference.compare(squares[rows], expected[1], "squares")


@pytest.mark.parametrize("n", range(8, 129, 8))
def test_every_n(n: int) -> None:
    a, b = operands(333, n, 1536)
    for actual, expected in zip(tilewright.hc_prenorm(a, b), reference(a, b), strict=True):
        prenorm_reference.compare(actual, expected, f"n {n}")


def test_how_b_is_rounded() -> None:
    """To nearest, ties to even."""
    values = torch.tensor(
        [1 + 2**-11, 1 + 2**-11 + 2**-20, 1 + 2**-12, 1 + 3 * 2**-11, -1 - 2**-11, -1 - 3 * 2**-12, 0, 3]
    )
    b = torch.zeros(8, 64)
    b[:, 0] = values
    a = torch.zeros(1, 64, dtype=torch.bfloat16)
    a[0, 0] = 1
    out, _ = tilewright.hc_prenorm(a.cuda(), b.cuda())
    assert out[0].tolist() == tf32(values).tolist()


def test_in_a_graph_and_compiled() -> None:
    a, b = operands(137, 24, 7168)
    expected = tilewright.hc_prenorm(a, b, normalize=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        actual = tilewright.hc_prenorm(a, b, normalize=True)
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(x, y) for x, y in zip(actual, expected, strict=True))
    compiled = torch.compile(lambda a, b: tilewright.hc_prenorm(a, b, normalize=True), fullgraph=True)
    assert all(torch.equal(x, y) for x, y in zip(compiled(a, b), expected, strict=True))


def test_two_streams_at_once() -> None:
    given = [operands(500, 24, 7680), operands(700, 32, 7168)]
    expected = [tilewright.hc_prenorm(*one) for one in given]
    streams = [torch.cuda.Stream() for _ in given]
    torch.cuda.synchronize()
    for _ in range(100):
        actual = []
        for stream, one in zip(streams, given, strict=True):
            with torch.cuda.stream(stream):
                actual.append(tilewright.hc_prenorm(*one))
        torch.cuda.synchronize()
        for results, right in zip(actual, expected, strict=True):
            assert all(torch.equal(x, y) for x, y in zip(results, right, strict=True))
