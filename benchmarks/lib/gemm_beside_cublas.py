"""Times `gemm` tactics and cuBLAS by turns, for the benchmarks that compare them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from benchmarks.lib import in_turn, machine

from tilewright import context
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm import measuring
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.tools.measuring import checked, make_operands
from tilewright.tools.timing import Replays

REPLAYS = 9
WARM_SECONDS = 0.02  # of all in turn, before samples of calls that are not long


class Chosen(NamedTuple):
    """The tactic that the runtime chooses for a problem, and operands to call it with."""

    tactic: Tactic
    source: str  # of the choice: tuned, or the model
    operands: list[measuring.Operands]
    error: float  # of D, beside float64


def chosen(problem: Problem) -> Chosen:
    """The runtime's choice for a problem, after its result has been checked."""
    current = context.current()
    device = current.device(torch.cuda.current_device())
    choice = current.select(FAMILY, problem, device)
    operands = make_operands(measuring, problem, device)
    return Chosen(choice.tactic, choice.source, operands, checked(operands[0], choice.tactic))


def head(clocks_before: str) -> dict[str, Any]:
    """What a page says of the machine and of how `microseconds` measured."""
    return {
        **{"gpu": torch.cuda.get_device_name(), "clocks before": clocks_before},
        **{"clocks after": machine.clocks(), "torch": torch.__version__, "cuda": torch.version.cuda},
        **machine.describe("tilewright"),
        "method": f"CUDA graphs of all sides in turn, cold L2, medians of {REPLAYS} replays, random data",
    }


def microseconds(problem: Problem, operands: list[measuring.Operands], tactics: list[Tactic]) -> list[float]:
    """Microseconds of cuBLAS's call, and of each tactic's: medians of replays that take turns."""
    peer = measuring.peer(problem)
    assert peer is not None
    _, call_peer = peer
    graphs = [Replays([lambda x=operand: call_peer(x) for operand in operands])]  # type: ignore[misc]
    for tactic in tactics:
        graphs.append(Replays([lambda x=operand, t=tactic: x.call(t) for operand in operands]))  # type: ignore[misc]
    return by_turns(graphs)


def by_turns(graphs: list[Replays]) -> list[float]:
    """Microseconds of a call of each graph, when all have been replayed for a while."""
    calls = [graph.seconds() for graph in graphs]
    of_round = sum(seconds * graph.calls for seconds, graph in zip(calls, graphs, strict=True))
    settling = in_turn.settling_rounds(of_round, max(calls), short=WARM_SECONDS)
    # The GPU waits before each replay: a busy host, which launches late, does not count.
    sides = {place: lambda graph=graph: graph.seconds(ahead=True) for place, graph in enumerate(graphs)}
    return [
        round(seconds * 1e6, 3) for seconds in in_turn.medians(sides, REPLAYS, settling=settling).values()
    ]
