"""Times `gemm` tactics and cuBLAS by turns, for the benchmarks that compare them."""

from __future__ import annotations

from benchmarks.lib import in_turn

from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm import measuring
from tilewright.families.gemm.problem import Problem
from tilewright.tools.timing import Replays

REPLAYS = 9
WARM_SECONDS = 0.02  # of all in turn, before samples of calls that are not long


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
