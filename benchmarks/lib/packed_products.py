"""Products of packed weights, by activations of 16 bits or FP8, beside Humming and torch.mm."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import torch
from benchmarks.lib import beside_peers, in_turn, ratios
from benchmarks.lib.beside_peers import Row
from benchmarks.lib.humming import humming_layer, humming_tuning
from benchmarks.lib.in_turn import replayed

from tilewright import context
from tilewright.tools.measuring import checked, make_operands
from tilewright.tools.timing import Replays, rotations

SHAPES = ((8192, 8192), (4096, 14336), (6144, 4096), (28672, 4096))
# The layers of Llama 3 8B, Qwen2.5 32B and Llama 3 70B: query, key and value; out; gate and up; down.
MODELS = (
    (6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336),
    (7168, 5120), (5120, 5120), (55296, 5120), (5120, 27648),
    (10240, 8192), (8192, 8192), (57344, 8192), (8192, 28672),
)  # fmt: skip
LEAST, MOST = 1024, 28672  # n and k of random problems
CLASSES = (16, 32, 64, 128, 512, 4096)  # the most rows of a line of the summary
ROUNDS = 7
MOST_SETS = 8  # of operands: each has its own weights of 16 bits, and Humming's
PEERS = ("humming", "torch.mm")
COLUMNS = ("n x k", "m", "format", "ours", "Humming", "torch.mm", "ratio to Humming", "ratio to torch.mm")

Calls = list[Callable[[], Any]]
PeerCalls = Callable[[Any, list[Any]], Calls]
"""Makes a peer's calls of a problem from operands of ours; none if it cannot compute the problem."""


def humming_calls(
    problem: Any,
    operands: list[Any],
    *,
    dtype: torch.dtype = torch.bfloat16,
    arguments: Callable[[Any], dict[str, Any]] = lambda operand: {},
    **layer_options: Any,
) -> Calls:
    """Calls of Humming's layers with random weights of 16 bits, which they pack; none if Humming is not
    installed, or has no such format. `arguments`: further arguments of a call, from operands of ours."""
    calls: Calls = []
    for operand in operands:
        wide = torch.randn(problem.n, problem.k, device="cuda", dtype=dtype) / 64
        layer = humming_layer(problem.n, problem.k, problem.weight_format, wide, **layer_options)
        if layer is None:
            return []
        tuning = humming_tuning(layer, problem.m)
        out = torch.empty_like(operand.out)
        calls.append(
            functools.partial(layer, operand.a, outputs=out, tuning_config=tuning, **arguments(operand))
        )
    return calls


def torch_calls(problem: Any, operands: list[Any], *, dtype: torch.dtype = torch.bfloat16) -> Calls:
    """Calls of torch.mm with the activations, and random weights, in `dtype`: as many as exceed L2."""
    device = context.current().device(torch.cuda.current_device())
    calls: Calls = []
    for operand in operands[: rotations(problem.n * problem.k * 2, device.l2_bytes, least=2)]:
        wide = torch.randn(problem.n, problem.k, device="cuda", dtype=dtype)
        out = torch.empty_like(operand.out)
        calls.append(functools.partial(torch.mm, operand.a.to(dtype), wide.T, out=out))
    return calls


def compile_humming(problem: Any, measuring: ModuleType, calls_of: PeerCalls) -> None:
    """Calls Humming's layer once, which compiles its kernel."""
    try:
        for call in calls_of(problem, [measuring.make(problem, torch.Generator("cuda"))]):
            call()
    except AssertionError:
        print(f"Humming refuses {problem}")
    torch.cuda.synchronize()


def measured(
    problem: Any,
    family: Any,
    measuring: ModuleType,
    peers: Mapping[str, PeerCalls],
    graph_of: Callable[[Calls], Replays] = Replays,
) -> Row:
    """Seconds of the tactic that is selected, whose result is checked first, and of the peers."""
    current = context.current()
    device = current.device(torch.cuda.current_device())
    operands = make_operands(measuring, problem, device)[:MOST_SETS]
    tactic = current.select(family, problem, device).tactic
    checked(operands[0], tactic)
    sides = {"ours": graph_of([functools.partial(operand.call, tactic) for operand in operands])}
    for peer, calls_of in peers.items():
        try:
            if calls := calls_of(problem, operands):
                sides[peer] = graph_of(calls)
        except AssertionError:  # as Humming says it
            print(f"{peer} refuses {problem}")
    seconds = in_turn.medians({name: replayed(side) for name, side in sides.items()}, ROUNDS)
    return {"problem": problem, "tactic": str(tactic), "seconds": seconds}


def class_of(m: int) -> str:
    """The line of the summary that a problem of m rows counts for."""
    last = 0
    for most in CLASSES:
        if m <= most:
            return f"{last + 1} to {most}"
        last = most
    return f"{last + 1} and more"


def summary(rows: list[Row]) -> list[str]:
    """Means of the ratios by peer, format and rows."""
    measured = [
        {
            "peer": peer,
            "format": row["problem"].weight_format,
            "rows": class_of(row["problem"].m),
            "ratio": seconds / row["seconds"]["ours"],
        }
        for row in rows
        for peer, seconds in row["seconds"].items()
        if peer != "ours"
    ]
    together = [row | {"format": "all"} for row in measured]
    whole = [row | {"rows": "all"} for row in together if row["peer"] == "humming"]
    lines = sorted([*whole, *together, *measured], key=_place)
    return ratios.summary_table(lines, ("peer", "format", "rows"))


def _place(row: dict[str, Any]) -> tuple[str, bool, str, int]:
    first = row["rows"].split()[0]
    return row["peer"], row["format"] != "all", row["format"], int(first) if first != "all" else 0


def cells(row: Row) -> list[str]:
    """The cells of a problem's line under COLUMNS."""
    problem, seconds = row["problem"], row["seconds"]
    return [
        f"{problem.n} x {problem.k}",
        f"{problem.m}",
        problem.weight_format,
        f"{seconds['ours'] * 1e6:.1f}",
        *beside_peers.peer_cells(seconds["ours"], [seconds.get(peer) for peer in PEERS]),
    ]


def markdown(
    title: str,
    note: str,
    head: dict[str, str],
    rows: list[Row],
    columns: Mapping[str, Callable[[Row], str]],
) -> Iterator[str]:
    """The lines of a page. `columns`: what a problem's line says beyond COLUMNS."""
    yield f"# {title}"
    yield ""
    yield f"{beside_peers.preface(head)} {note}"
    yield ""
    yield from summary(rows)
    yield ""
    more = columns.values()
    lines = [[*cells(row), *(cell(row) for cell in more)] for row in rows]
    yield from ratios.table([*COLUMNS, *columns], lines)
