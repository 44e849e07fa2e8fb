"""Kernels in green contexts of a few SMs and in the primary context, one after the other: what the driver
says of one holds for no other. Each test has a process of its own, because a process remembers its contexts,
and because stream-K kernels whose thread blocks do not all run would hang."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_helpers import RunApart

from tilewright.context import current

pytest.importorskip("cuda.bindings.driver", reason="no cuda-python")

LEAN = "gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_lean_coop"
STREAM_K = (
    "gemm_sm90_tf32_tf32_f32_f32_tn_128x128x32_1x1_coop_streamk",
    "gemm_sm90_tf32_tf32_f32_f32_tn_128x32x64_1x1_coop_streamk_swap",
)

HEAD = """
import sys, torch, tilewright
sys.path.insert(0, sys.argv[2])
from green_contexts import GreenContext, grids, whole_numbers
from tilewright.errors import LaunchError, NotBuiltError
tactic, words = sys.argv[1], sys.argv[3:]
torch.manual_seed(0)
whole = torch.cuda.get_device_properties(0).multi_processor_count
torch.zeros(1, device="cuda")

class Primary:
    sms = whole
    stream = torch.cuda.Stream()
    def current(self):
        return torch.cuda.stream(self.stream)
    on_stream = current

def operands(m, n, k, dtype):
    a, b = whole_numbers(m, k, dtype=dtype), whole_numbers(n, k, dtype=dtype).t()
    exact = (a.double() @ b.double()).to(dtype)
    torch.cuda.synchronize()
    return a, b, exact
"""


@pytest.fixture
def run(run_apart: RunApart) -> RunApart:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("kernels of sm_90a")

    def run(script: str, tactic: str, *words: str) -> None:
        name = tactic.partition("@")[0]
        if not current().registry.is_built(current().registry.record(name)):
            pytest.skip(f"{name} is not built")
        run_apart(HEAD + script, tactic, str(Path(__file__).parent), *words)

    return run


GRIDS = """
how, order = words
a, b, exact = operands(2048, 4096, 512, torch.bfloat16)  # 512 tiles
out = torch.empty_like(exact)
places = [Primary()]
try:
    places += [GreenContext(16), GreenContext(64)]
except RuntimeError as error:
    sys.exit(print("not built: no green context:", error))
assert [place.sms for place in places] == [whole, 16, 64], [place.sms for place in places]
cluster = 2 if "2x1" in tactic else 1
call = lambda: tilewright.gemm(a, b, out=out, tactic=tactic)
for turn in range(2):
    for place in places if order == "primary first" else reversed(places):
        out.fill_(float("nan"))
        torch.cuda.synchronize()
        with getattr(place, how)():
            call()
        torch.cuda.synchronize()
        assert torch.equal(out, exact), (turn, place.sms)
        with getattr(place, how)():
            blocks = grids(call)
        assert blocks == [place.sms // cluster * cluster], (turn, place.sms, blocks)
print("done")
"""


@pytest.mark.parametrize("order", ["primary first", "green first"])
@pytest.mark.parametrize("how", ["current", "on_stream"])
@pytest.mark.parametrize("settings", ["", "@cluster=2x1"], ids=["alone", "pairs"])
def test_each_context_has_a_grid_of_its_own(run: RunApart, settings: str, how: str, order: str) -> None:
    """By making the context current, or by using its stream alone, as libraries do."""
    run(GRIDS, LEAN + settings, how, order)


ONE_AFTER_ANOTHER = """
a, b, exact = operands(2048, 4096, 512, torch.bfloat16)
out = torch.empty_like(exact)
call = lambda: tilewright.gemm(a, b, out=out, tactic=tactic)
handles, numbers = [], []
for sms in (16, 64, 16, 64, 32):
    green = GreenContext(sms)
    handles.append(int(green.context)), numbers.append(green.number)
    out.fill_(float("nan"))
    torch.cuda.synchronize()
    with green.current():
        call()
    assert torch.equal(out, exact), sms
    with green.current():
        assert grids(call) == [green.sms], (sms, handles, numbers)
    green.close()
assert len(set(numbers)) == len(numbers), (handles, numbers)
print("done")
"""


def test_contexts_that_are_destroyed_leave_nothing_behind(run: RunApart) -> None:
    """A new one may have the handle of one that was destroyed, and has neither its kernels nor its SMs."""
    run(ONE_AFTER_ANOTHER, LEAN)


REFUSED = """
a, b, exact = operands(2048, 4096, 512, torch.bfloat16)
green = GreenContext(4, apart=True)
assert green.sms < 8, green.sms
for how in (green.current, green.on_stream):
    with how():
        try:
            tilewright.gemm(a, b, tactic=tactic + "@cluster=4x2")
        except LaunchError as error:
            assert "run no cluster of 8 thread blocks" in error.message, error.message
            assert "smaller cluster" in error.hint
        else:
            raise AssertionError("a cluster of 8 was launched on %d SMs" % green.sms)
        out = tilewright.gemm(a, b, tactic=tactic)
    assert torch.equal(out, exact)
primary = tilewright.gemm(a, b, tactic=tactic + "@cluster=4x2")
torch.cuda.synchronize()
assert torch.equal(primary, exact)
print("done")
"""


def test_a_cluster_that_does_not_fit_is_refused(run: RunApart) -> None:
    """The error says so; smaller clusters run there, and this one elsewhere."""
    run(REFUSED, LEAN)


FINISHES = """
how, order = words
places = [Primary(), GreenContext(16), GreenContext(64)]
if order == "green first":
    places.reverse()
shapes = [(512, 512, 8192), (640, 1024, 4096), (128, 128, 16384), (1920, 2176, 1024), (16, 4096, 4096)]
for shape in shapes:
    a, b, exact = operands(*shape, torch.float32)
    for place in places:
        out = torch.full_like(exact, float("nan"))
        torch.cuda.synchronize()
        with getattr(place, how)():
            for _ in range(20):
                tilewright.gemm(a, b, out=out, tactic=tactic)
        torch.cuda.synchronize()
        assert torch.equal(out, exact), (shape, place.sms)
        with getattr(place, how)():
            blocks = grids(lambda: tilewright.gemm(a, b, out=out, tactic=tactic))
        assert len(blocks) == 1 and 0 < blocks[0] <= place.sms, (shape, place.sms, blocks)
print("done")
"""


@pytest.mark.parametrize("order", ["primary first", "green first"])
@pytest.mark.parametrize("how", ["current", "on_stream"])
@pytest.mark.parametrize("decomposition", ["stream_k", "split_k,splits=4", "heuristic", "data_parallel"])
@pytest.mark.parametrize("kernel", STREAM_K)
def test_stream_k_finishes(run: RunApart, kernel: str, decomposition: str, how: str, order: str) -> None:
    """With no more thread blocks than its context runs at once."""
    run(FINISHES, f"{kernel}@decomposition={decomposition}", how, order)
