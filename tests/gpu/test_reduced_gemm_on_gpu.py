"""`tilewright.reduced_gemm` on a GPU: every kernel, against float64; equal bits; graphs."""

from __future__ import annotations

import generated_kernels
import pytest
import torch

import tilewright
from tilewright.errors import NotBuiltError

pytestmark = pytest.mark.marks_kernels
NAMES = generated_kernels.names("reduced_gemm")

SHAPES = [  # m, n, k, batch: odd extents, fewer k tiles than SMs, k of less than a tile
    (128, 384, 128, 129), (256, 256, 256, 33), (1, 8, 8, 1), (130, 70, 72, 7), (384, 128, 384, 65),
    (127, 193, 200, 300), (2000, 1000, 64, 5), (64, 64, 64, 4096),
]  # fmt: skip


def operands(
    m: int, n: int, k: int, batch: int, dtype: torch.dtype = torch.bfloat16
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A, B of n rows, and their product in float64."""
    torch.manual_seed(m + n)
    a = torch.randn(batch, m, k, device="cuda").to(dtype)
    b = torch.randn(batch, n, k, device="cuda").to(dtype)
    return a, b, torch.einsum("bmk,bnk->mn", a.double(), b.double())


def run(*arguments: torch.Tensor, **options: object) -> torch.Tensor:
    try:
        return tilewright.reduced_gemm(*arguments, **options)  # type: ignore[arg-type]
    except NotBuiltError as error:
        pytest.skip(error.message)


def compare(found: torch.Tensor, wanted: torch.Tensor) -> None:
    """The norm of the error, and each element: a norm does not see a wrong one among many."""
    difference = found.double() - wanted
    error = float(difference.norm() / wanted.norm())
    assert error < (1e-5 if found.dtype == torch.float32 else 3e-3), error
    rms = float(wanted.square().mean().sqrt())
    excess = difference.abs() - torch.finfo(found.dtype).eps * wanted.abs() - 1e-3 * rms
    assert bool((excess <= 0).all()), f"an element is off by {float(difference.abs().max())}, of {rms}"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kernel", NAMES)
def test_every_kernel(kernel: str, shape: tuple[int, int, int, int]) -> None:
    dtype = torch.bfloat16 if "bf16" in kernel else torch.float16
    a, b, expected = operands(*shape, dtype=dtype)
    for d in (torch.float32, dtype):
        out = torch.full(expected.shape, float("nan"), device="cuda", dtype=d)
        run(a, b.mT, out=out, tactic=kernel)
        compare(out, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_c_alpha_and_a_wider_result(dtype: torch.dtype) -> None:
    a, b, product = operands(130, 70, 72, 7)
    c = torch.randn(130, 70, device="cuda").to(dtype)
    wide = torch.full((132, 90), 7.0, device="cuda").to(dtype)
    out = wide[1:131, 3:73]
    run(a, b.mT, out=out, c=c, alpha=0.3, beta=-2.0)
    compare(out, 0.3 * product - 2.0 * c.double())
    wide[1:131, 3:73] = 7.0
    assert (wide == 7.0).all()
    run(a, b.mT, out=c, c=c, beta=1.0)
    assert run(a[:0], b[:0].mT, c=c, beta=2.0, out_dtype=dtype).equal(
        (c.float() * 2).to(dtype) if dtype != torch.float32 else 2 * c
    )


def test_c_is_not_read_without_beta() -> None:
    a, b, product = operands(130, 70, 72, 7)
    c = torch.full((130, 70), float("nan"), device="cuda")
    out = torch.empty_like(c)
    run(a, b.mT, out=out, c=c, beta=0.0)
    compare(out, product)


def test_one_matrix_for_all_and_strided_ones() -> None:
    torch.manual_seed(0)
    wide = torch.randn(3, 96, 40, 128, device="cuda").bfloat16()
    a, b = wide[1, :, :33, 8:72], torch.randn(48, 64, device="cuda").bfloat16()
    compare(run(a, b.mT, out_dtype=torch.float32), torch.einsum("bmk,nk->mn", a.double(), b.double()))


def test_equal_bits_every_time() -> None:
    a, b, _ = operands(256, 256, 256, 500)
    first = run(a, b.mT, out_dtype=torch.float32)
    out = torch.empty_like(first)
    for _ in range(1000):
        tilewright.reduced_gemm(a, b.mT, out=out)
        assert torch.equal(out, first)


def test_in_a_graph_and_a_dependent_chain() -> None:
    a, b, product = operands(128, 128, 64, 200)
    d = torch.zeros(128, 128, device="cuda")
    run(a, b.mT, out=d)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):  # each adds to what the one before has written
            tilewright.reduced_gemm(a, b.mT, out=d, c=d, beta=1.0)
    d.zero_()
    graph.replay()
    compare(d, 20 * product)


def test_streams_and_replays_at_once() -> None:
    """Thread blocks of a launch wait for each other: also beside other such launches, on other streams."""
    problems = [operands(256, 256, 256, 64), operands(128, 384, 128, 129), operands(64, 64, 64, 4096)]
    expected = [run(a, b.mT, out_dtype=torch.float32) for a, b, _ in problems]
    outs = [torch.empty_like(one) for one in expected]
    streams = [torch.cuda.Stream() for _ in problems]
    (a, b, _), replayed, graph = problems[0], torch.empty_like(expected[0]), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(4):
            tilewright.reduced_gemm(a, b.mT, out=replayed)
    torch.cuda.synchronize()
    for _ in range(200):
        for stream, (left, right, _), out in zip(streams, problems, outs, strict=True):
            with torch.cuda.stream(stream):
                tilewright.reduced_gemm(left, right.mT, out=out)
        graph.replay()
    torch.cuda.synchronize()
    assert replayed.equal(expected[0])
    assert all(out.equal(one) for out, one in zip(outs, expected, strict=True))
