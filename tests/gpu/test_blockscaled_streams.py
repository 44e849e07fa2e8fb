"""The block-scaled ops under CUDA graphs, on several streams and threads, and after one another."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import blockscaled_reference as reference
import pytest
import torch
from torch_helpers import RunApart

from tilewright.errors import NotBuiltError

pytestmark = pytest.mark.marks_kernels


@pytest.mark.parametrize("how", ["selected", "cut", "copied"])
@pytest.mark.parametrize("pair", reference.PAIRS)
def test_cuda_graph_with_changed_data(pair: str, how: str) -> None:
    """Data, scales and alpha are read when the graph runs."""
    m, n, k = shape = (100, 300, 500) if how == "copied" else (48, 512, 4096)
    tactic = reference.cutting_tactics(pair)[-1] if how == "cut" else None
    names = reference.PAIRS[pair]
    a, a_scales = reference.quantized(m, k, names[0], seed=10)
    b, b_scales = reference.quantized(n, k, names[1], seed=11)
    of = reference.known(*names, a, b.mT, a_scales, b_scales, k)
    alpha = torch.ones(1, device="cuda")
    out = torch.zeros(m, n, device="cuda", dtype=torch.bfloat16)
    of.multiply_built(alpha, out=out, tactic=tactic)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            of.multiply(alpha, out=out, tactic=tactic)
        made = of.multiply(alpha, tactic=tactic)
    for seed in range(3):
        for tensor, fresh in zip(
            (a, a_scales, b, b_scales),
            (
                *reference.quantized(m, k, names[0], seed=seed),
                *reference.quantized(n, k, names[1], seed=-seed),
            ),
            strict=True,
        ):
            reference.as_bytes(tensor).copy_(reference.as_bytes(fresh))
        alpha.fill_(seed - 1.5)
        out.fill_(float("nan"))
        made.fill_(float("nan"))
        graph.replay()
        changed = reference.known(*names, *of.call, k)
        for actual in (out, made):
            changed.check(actual, f"replay {seed} of {shape}", alpha=seed - 1.5)


CAPTURE = """
import sys, torch, tilewright
from tilewright import reference
from tilewright.errors import NotBuiltError
tactic = sys.argv[1] or None
torch.manual_seed(0)
a, a_scales = reference.quantize(torch.randn(24, 1024, device="cuda"), "nvfp4")
b, b_scales = reference.quantize(torch.randn(648, 1024, device="cuda"), "nvfp4")
call = (a, b.mT, a_scales, b_scales)
exact, magnitude = reference.product(*call, "nvfp4"), reference.magnitude(*call, "nvfp4")
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph):
        out = tilewright.mm_nvfp4(*call, tactic=tactic)
except NotBuiltError as error:
    sys.exit(print("not built:", error.message))
out.fill_(float("nan"))
graph.replay()
torch.cuda.synchronize()
result = reference.compare(out, exact, magnitude)
assert result.passes(), str(result)
print("done")
"""


@pytest.mark.parametrize("how", ["selected", "cut"])
def test_capture_without_a_call_before(how: str, run_apart: RunApart) -> None:
    """In a process of its own: nothing has been loaded, prepared or planned before the capture."""
    tactic = reference.cutting_tactics("nvfp4")[-1] if how == "cut" else None
    run_apart(CAPTURE, tactic or "")


@pytest.mark.parametrize("pair", reference.PAIRS)
def test_streams_at_once(pair: str) -> None:
    """Every call of every stream is right, whatever runs beside it."""
    of = [reference.of_pair(pair, shape) for shape in ((33, 2000, 4096), (128, 1024, 4096))]
    tactics = reference.cutting_tactics(pair)
    of[0].multiply_built()
    streams = [torch.cuda.Stream() for _ in range(3)]
    torch.cuda.synchronize()
    outs: list[tuple[reference.Operands, torch.Tensor]] = []
    for _ in range(20):
        for number, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                mine = of[number % 2]
                outs += [(mine, mine.multiply(tactic=tactic)) for tactic in tactics]
    torch.cuda.synchronize()
    first: dict[tuple[int, int], torch.Tensor] = {}
    for index, (mine, out) in enumerate(outs):
        before = first.setdefault((id(mine), index % len(tactics)), out)
        if before is out:
            mine.check(out)
        assert reference.same_bits(out, before), f"call {index}"


def test_threads_on_one_stream() -> None:
    """Each thread is fresh: no CUDA context is current in it until it calls."""
    of = reference.of_pair("nvfp4", (48, 512, 4096))
    tactics = reference.cutting_tactics("nvfp4")
    outs: list[Any] = []

    def work() -> None:
        try:
            outs.extend(of.multiply(tactic=tactic) for _ in range(20) for tactic in tactics)
        except NotBuiltError:
            pass
        except Exception as error:
            outs.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not outs:
        pytest.skip("not built")
    for out in outs:
        assert isinstance(out, torch.Tensor), repr(out)
        of.check(out)


@pytest.mark.parametrize("how", ["selected", "cut"])
def test_each_call_reads_what_the_one_before_wrote(how: str) -> None:
    """Programmatic dependent launch starts a kernel early; it must still wait for its operands.

    Each D, as bytes, is the next A, so that whatever is read early is a wrong number: any byte is two
    elements of E2M1.
    """
    m, n, k = 64, 128, 512
    tactic = reference.cutting_tactics("nvfp4")[-1] if how == "cut" else None
    names = reference.PAIRS["nvfp4"]
    of = reference.operands(*names, (m, n, k))
    chain = [torch.empty(m, n, dtype=torch.bfloat16, device="cuda") for _ in range(41)]
    chain[0].view(torch.uint8).copy_(of.a)
    of.multiply_built(a=chain[0].view(torch.uint8), out=chain[1], tactic=tactic)
    for _ in range(10):
        for out in chain[1:]:
            out.fill_(float("nan"))
        for before, after in itertools.pairwise(chain):
            of.multiply(a=before.view(torch.uint8), out=after, tactic=tactic)
        for link, (before, after) in enumerate(itertools.pairwise(chain)):
            made = reference.known(*names, before.view(torch.uint8), of.b, of.a_scales, of.b_scales, k)
            made.check(after, f"link {link}")


def test_alpha_and_c_may_be_what_the_call_before_wrote() -> None:
    """They are read in the epilogue; alpha is an element of the D before, and C all of it."""
    of = reference.of_pair("nvfp4", (64, 128, 512))
    reference.some_kernel("nvfp4", "f32", "same")
    unit = float(1 / of.exact[0, 0])
    scaled = torch.full((1,), unit, device="cuda")
    chain = [torch.full((64, 128), float("nan"), device="cuda") for _ in range(9)]
    chain[0].copy_(of.multiply_built(scaled, out_dtype=torch.float32))
    for _ in range(10):
        for out in chain[1:]:
            out.fill_(float("nan"))
        for before, after in itertools.pairwise(chain):
            of.multiply(before[0, :1], out_dtype=torch.float32, out=after, c=before, beta=-1.0)
        for link, (before, after) in enumerate(itertools.pairwise(chain)):
            of.check(after, f"link {link}", alpha=float(before[0, 0]), c=before, beta=-1.0)


def test_a_call_within_a_stream_waits_for_that_stream() -> None:
    """Operands that another kernel of the same stream writes just before."""
    of = reference.of_pair("mxfp8", (48, 512, 4096))
    of.multiply_built()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        a = torch.zeros_like(of.a.view(torch.uint8))
        torch.cuda._sleep(10_000_000)
        a.copy_(of.a.view(torch.uint8))
        actual = of.multiply(a=a.view(of.a.dtype))
    stream.synchronize()
    of.check(actual)
