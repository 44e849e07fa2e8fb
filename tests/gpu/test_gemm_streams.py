"""`tilewright.gemm` on a GPU in CUDA graphs, on several streams and in threads."""

from __future__ import annotations

import threading
from typing import Any

import gemm_reference as reference
import pytest
import torch
from gemm_products import BF16, TF32, column_major, compare, gemm
from torch_helpers import RunApart

import tilewright
from tilewright.errors import NotBuiltError
from tilewright.libraries.registry import Registry

pytestmark = pytest.mark.marks_kernels


def test_each_call_reads_what_the_one_before_wrote() -> None:
    """Programmatic dependent launch starts a kernel early; it must still wait for its operands."""
    torch.manual_seed(0)
    weight = torch.linalg.qr(torch.randn(512, 512, device="cuda")).Q.bfloat16()
    x = torch.randn(64, 512, device="cuda").bfloat16()
    buffers = [torch.empty_like(x) for _ in range(41)]
    buffers[0].copy_(x)
    for _ in range(20):
        for i in range(40):
            gemm(buffers[i], weight.t(), out=buffers[i + 1])
        for i in range(40):
            expected = buffers[i].double() @ weight.double().t()
            compare(buffers[i + 1], expected, BF16, 512, f"link {i}")
        for buffer in buffers[1:]:
            buffer.fill_(float("nan"))


def stream_k_kernel() -> str:
    for record in Registry().kernels("gemm"):
        config = record.config
        kind = (config["a"], config["d"], config["layout"], config["scheduler"], config["activation"])
        if kind == (*TF32, "tn", "stream_k", "none") and not config["swap_ab"]:
            return record.name
    pytest.skip("no stream-K kernel of tf32 in the tables")
    return ""


@pytest.mark.parametrize("how", ["selected", "stream_k", "copied"])
def test_cuda_graph_with_changed_data(how: str) -> None:
    shape = (200, 512, 4096) if how != "copied" else (100, 300, 500)
    types = TF32 if how == "stream_k" else BF16
    a, b, _ = reference.operands(types[0], types[0], shape)
    a, b = a.clone(), column_major(b)
    tactic = stream_k_kernel() + "@decomposition=split_k,splits=3" if how == "stream_k" else None
    out = torch.zeros(shape[:2], device="cuda", dtype=reference.DTYPES[types[1]])
    gemm(a, b, out=out, tactic=tactic)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            gemm(a, b, out=out, tactic=tactic)
        made = gemm(a, b, tactic=tactic)
    for seed in range(3):
        a.copy_(reference.random(tuple(a.shape), types[0], seed=100 + seed))
        out.fill_(float("nan"))
        made.fill_(float("nan"))
        # A launch of another size between replays must not disturb the graph's workspace.
        gemm(a, b, tactic=tactic and tactic.replace("splits=3", "splits=4"))
        graph.replay()
        expected = a.double() @ b.double()
        compare(out, expected, types, shape[2])
        compare(made, expected, types, shape[2])


CAPTURE = """
import sys, torch, tilewright
from tilewright.errors import NotBuiltError
tactic = sys.argv[1] or None
torch.manual_seed(0)
dtype = torch.float32 if tactic else torch.bfloat16
a = torch.randn(72, 1024, device="cuda").to(dtype)
b = torch.randn(648, 1024, device="cuda").to(dtype).t()
want = a.double() @ b.double()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph):
        out = tilewright.gemm(a, b, tactic=tactic)
except NotBuiltError as error:
    sys.exit(print("not built:", error.message))
out.fill_(float("nan"))
graph.replay()
torch.cuda.synchronize()
assert (out.double() - want).norm() < 4e-3 * want.norm()
print("done")
"""


@pytest.mark.parametrize("settings", ["", "@decomposition=split_k,splits=3"], ids=["selected", "stream_k"])
def test_capture_without_a_call_before(settings: str, run_apart: RunApart) -> None:
    """In a process of its own: nothing has been loaded, prepared or planned before the capture."""
    run_apart(CAPTURE, settings and stream_k_kernel() + settings)


STREAMS = """
import sys, torch, tilewright
tactic = sys.argv[1]
torch.manual_seed(0)
# Many tiles, so that both kernels want every SM at once.
a = torch.randn(2048, 4096, device="cuda")
b = torch.randn(4096, 2000, device="cuda").t().contiguous().t()
want = a @ b
streams = [torch.cuda.Stream() for _ in range(3)]
torch.cuda.synchronize()
outs = []
for round in range(50):
    for stream in streams:
        with torch.cuda.stream(stream):
            outs.append(tilewright.gemm(a, b, tactic=tactic))
torch.cuda.synchronize()
for out in outs:
    assert ((out - want).norm() / want.norm()) < 1e-2
print("done")
"""


@pytest.mark.parametrize("settings", ["@decomposition=stream_k", "@decomposition=split_k,splits=4"])
def test_streams_do_not_share_a_workspace(settings: str, run_apart: RunApart) -> None:
    """Two kernels that share one deadlock the GPU: a process of its own, which can be ended."""
    name = stream_k_kernel()
    if not Registry().is_built(Registry().record(name)):
        pytest.skip("not built")
    run_apart(STREAMS, name + settings)


def test_threads_on_one_stream() -> None:
    """Each thread is fresh: no CUDA context is current in it until it calls."""
    tactic = stream_k_kernel() + "@decomposition=split_k,splits=3"
    a, b, product = reference.operands("tf32", "tf32", (256, 512, 4096))
    b = column_major(b)
    outs: list[Any] = []

    def work() -> None:
        try:
            outs.extend([tilewright.gemm(a, b), *(tilewright.gemm(a, b, tactic=tactic) for _ in range(20))])
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
        compare(out, product, TF32, 4096)
