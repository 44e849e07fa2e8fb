"""Prepared calls on a GPU, and CUDA graphs that run at once."""

from __future__ import annotations

import functools
import threading
from typing import Any

import blockscaled_reference as blockscaled
import pytest
import torch
from torch_helpers import RunApart, built, random, stream_k_tactic, weight

import tilewright
from tilewright.errors import ArgumentError

pytestmark = pytest.mark.marks_kernels

BF16 = torch.bfloat16
NAN = float("nan")


def plans() -> list[tuple[str, Any, tuple[torch.Tensor, ...]]]:
    a, b = random(48, 512), weight(256, 512)
    fp8 = (random(48, 512, dtype="e4m3"), weight(256, 512, "e4m3"))
    tf32 = (random(48, 512, dtype="tf32"), weight(256, 512, "tf32"))
    of = blockscaled.of_pair("nvfp4", (48, 256, 512))
    tactic = stream_k_tactic()
    scale = torch.full((1,), 0.5, device="cuda")
    return [
        ("bf16", built(lambda: tilewright.plan(tilewright.gemm, a, b)), (a, b)),
        ("stream_k", built(lambda: tilewright.plan(tilewright.gemm, *tf32, tactic=tactic)), tf32),
        ("fp8", built(lambda: tilewright.plan(tilewright.gemm, *fp8, scale_a=scale)), fp8),
        ("nvfp4", built(lambda: tilewright.plan(tilewright.mm_nvfp4, *of.call)), of.call[:2]),
    ]


def test_plans_in_graphs_and_streams() -> None:
    """A call, a graph of calls with changed data, another stream, and a fresh thread: the same bits."""
    for name, plan, (a, b) in plans():
        fresh = a.view(torch.uint8).clone().view(a.dtype)
        wanted = plan(a, b)
        changed = a.view(torch.uint8).flip(0).view(a.dtype)
        wanted_changed = plan(changed, b)
        assert not torch.equal(wanted, wanted_changed)
        out = torch.full_like(wanted, NAN)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(3):
                plan(fresh, b, out)
            made = plan(fresh, b)
        for source, expected in ((changed, wanted_changed), (a, wanted)):
            fresh.view(torch.uint8).copy_(source.view(torch.uint8))
            out.fill_(NAN)
            made.fill_(NAN)
            graph.replay()
            assert torch.equal(out, expected), name
            assert torch.equal(made, expected), name
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(10_000_000)
            fresh.view(torch.uint8).copy_(changed.view(torch.uint8))
            elsewhere = plan(fresh, b)
        stream.synchronize()
        assert torch.equal(elsewhere, wanted_changed), name
        actual: list[Any] = []
        thread = threading.Thread(target=lambda to=actual, p=plan, x=a, y=b: to.append(p(x, y)))
        thread.start()
        thread.join()
        assert torch.equal(actual[0], wanted), name


def test_quantising_plans_in_graphs_and_streams() -> None:
    """The scale is a number, a tensor that a kernel reads, or a tensor that is not on the GPU; and back."""
    x = random(129, 1024)
    changed = x.flip(0)
    scale = torch.full((1,), 150.0, device="cuda")
    for given in (37.25, scale, torch.tensor(37.25, dtype=torch.float64)):
        plan = built(functools.partial(tilewright.plan, tilewright.quantize_nvfp4, x, given))
        wanted, wanted_changed = (tilewright.quantize_nvfp4(value, given) for value in (x, changed))
        data, scales = plan(x)
        back = built(functools.partial(tilewright.plan, tilewright.dequantize_nvfp4, *wanted, given))
        assert torch.equal(back(data, scales), tilewright.dequantize_nvfp4(*wanted, given))
        fresh, out = x.clone(), torch.zeros_like(data)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made, made_scales = plan(fresh, out)
        for source, expected in ((changed, wanted_changed), (x, wanted)):
            fresh.copy_(source)
            graph.replay()
            assert made is out
            assert torch.equal(out, expected[0])
            assert torch.equal(made_scales.view(torch.uint8), expected[1].view(torch.uint8))
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(10_000_000)
            fresh.copy_(changed)
            elsewhere, _ = plan(fresh)
        stream.synchronize()
        assert torch.equal(elsewhere, wanted_changed[0])


def test_plans_refuse_what_was_not_planned() -> None:
    a, b = random(48, 512), weight(256, 512)
    plan = built(lambda: tilewright.plan(tilewright.gemm, a, b))
    with pytest.raises(ArgumentError, match=r"a: it is \[47, 512\]"):
        plan(a[:47], b)
    with pytest.raises(ArgumentError, match="a: it is on cpu"):
        plan(a.cpu(), b)
    with pytest.raises(ArgumentError, match="out: it overlaps a"):
        plan(a, b, a[:, :256].as_strided((48, 256), (256, 1)))
    with pytest.raises(ArgumentError, match="a: its address"):
        plan(torch.zeros(48 * 512 + 1, device="cuda", dtype=BF16)[1:].view(48, 512), b)
    torch.cuda.synchronize()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two GPUs here")
def test_a_plan_of_a_device_that_is_not_the_current_one() -> None:
    a, b = random(48, 512), weight(256, 512)
    expected = built(lambda: tilewright.gemm(a, b))
    plan = tilewright.plan(tilewright.gemm, a.to("cuda:1"), b.to("cuda:1"))
    assert torch.equal(plan(a.to("cuda:1"), b.to("cuda:1")).to("cuda:0"), expected)
    with pytest.raises(ArgumentError, match=r"a: it is .* on device 0; the plan is for .* on device 1"):
        plan(a, b)


TWO_GRAPHS = """
import sys, torch, tilewright
tactic, how = sys.argv[1:]
torch.manual_seed(0)
# Many tiles, so that both graphs want every SM at once.
a = [torch.randn(2048, 4096, device="cuda") for _ in range(2)]
b = [torch.randn(2000, 4096, device="cuda").t() for _ in range(2)]
inputs = [[torch.randn_like(x) for _ in range(3)] for x in a]
want = [[tilewright.gemm(x, y, tactic=tactic) for x in xs] for xs, y in zip(inputs, b)]
outs = [[torch.empty_like(w[0]) for _ in range(4)] for w in want]
torch.cuda.synchronize()

def run(i):
    for out in outs[i]:
        tilewright.gemm(a[i], b[i], out=out, tactic=tactic)

if how == "two_graphs":  # captured on one stream, replayed on two
    stream = torch.cuda.Stream()
    graphs = [torch.cuda.CUDAGraph() for _ in a]
    for i, graph in enumerate(graphs):
        with torch.cuda.graph(graph, stream=stream):
            run(i)
else:  # two branches of one graph
    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    with torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            run(1)
        run(0)
        torch.cuda.current_stream().wait_stream(side)
streams = [torch.cuda.Stream() for _ in a]
for round in range(60):
    for i in range(2):
        a[i].copy_(inputs[i][(round + i) % 3])
        for out in outs[i]:
            out.fill_(float("nan"))
    torch.cuda.synchronize()
    for _ in range(3):
        if how == "two_graphs":
            for stream, graph in zip(streams, graphs):
                with torch.cuda.stream(stream):
                    graph.replay()
        else:
            graph.replay()
    torch.cuda.synchronize()
    for i in range(2):
        for out in outs[i]:
            assert torch.equal(out, want[i][(round + i) % 3]), (round, i)
print("done")
"""


@pytest.mark.parametrize("how", ["two_graphs", "two_branches"])
@pytest.mark.parametrize("cut", ["stream_k", "split_k,splits=4"])
def test_graphs_have_workspaces_of_their_own(how: str, cut: str, run_apart: RunApart) -> None:
    """Kernels at once that share one deadlock the GPU: a process of its own, which can be ended."""
    run_apart(TWO_GRAPHS, f"{stream_k_tactic().partition('@')[0]}@decomposition={cut}", how)
