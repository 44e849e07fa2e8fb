"""Runs the problems of a bundle on its GPU: checks each result, and times the bundle's tactics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from tilewright import context as contexts
from tilewright.architectures import device
from tilewright.bundle.closed import Bundle
from tilewright.bundle.manifest import Entry
from tilewright.context import Context
from tilewright.declarations import catalog
from tilewright.declarations.tactics import Tactic
from tilewright.selection.families import family_of
from tilewright.tools import measuring, timing
from tilewright.tools.benchmarking.measuring import environment
from tilewright.tools.bundling import proof, report
from tilewright.tools.trying import refusals

NAMES = ("measured.md", "measured.json")  # in the bundle's folder
REPLAYS = 9  # of a CUDA graph, for a median


class Run(NamedTuple):
    """A problem of a bundle at one value of its extent."""

    layers: Sequence[str]
    op: str
    problem: str
    extents: str
    extent: str
    value: int
    tactic: str
    predicted_us: float | None
    measured_us: float
    error: str


def values_of(entry: Entry) -> list[int]:
    """The values that are run: those for which reports have predictions, and both ends."""
    return sorted({entry.values[0], entry.values[-1], *(set(report.POINTS) & set(entry.values))})


def runs(bundle: Bundle, progress: Callable[[str], None] = lambda text: None) -> Iterator[Run]:
    """Each problem at a few values, on the current GPU, with no kernel but the bundle's.

    Raises BundleError if the GPU is not the bundle's, WrongResultError if a result is wrong.
    """
    with contexts.use(Context(bundle=bundle)) as current:
        gpu = current.device(torch.cuda.current_device())
        for number, entry in enumerate(bundle.manifest.entries, 1):
            progress(f"{number} of {len(bundle.manifest.entries)}: {', '.join(entry.layers)}")
            for value in values_of(entry):
                yield _run(bundle, entry, value, gpu)
                torch.cuda.empty_cache()


def _run(bundle: Bundle, entry: Entry, value: int, gpu: device.DeviceProperties) -> Run:
    product = proof.product_of(entry)
    problem, family = product.problem(value), family_of(entry.family)
    choice = bundle.choose(family, problem, gpu, batch_invariant=bundle.batch_invariant)
    model = family.model(choice.record, problem, gpu)
    predicted = model(choice.tactic).seconds if model else None
    with refusals(str(problem)):
        operands = measuring.make_operands(catalog.family_module(entry.family, "measuring"), problem, gpu)
        error = operands[0].error_text.format(measuring.checked(operands[0]))
        seconds = timing.graph_seconds([operand_set.call for operand_set in operands], replays=REPLAYS)
    return Run(
        layers=entry.layers,
        op=entry.op,
        problem=product.example.kind_text,
        extents=report.extents_text(product),
        extent=entry.extent,
        value=value,
        tactic=str(choice.tactic),
        predicted_us=None if predicted is None else round(predicted * 1e6, 2),
        measured_us=round(seconds * 1e6, 2),
        error=error,
    )


def as_json(bundle: Bundle, measured: Sequence[Run]) -> dict[str, Any]:
    """The measurement for programs."""
    gpu = device.read(torch.cuda.current_device())
    return {
        "title": bundle.manifest.title,
        **environment(gpu),
        "batch_invariant": bundle.batch_invariant,
        "runs": [run._asdict() for run in measured],
    }


def markdown(answer: Mapping[str, Any]) -> str:
    """The measurement for people."""
    lines = [
        f"# {answer['title']} on {answer['device']}, measured",
        "",
        f"driver {answer['driver']}, torch {answer['torch']}, {answer['date']}. Microseconds of one launch: "
        f"the model's, and measured ({answer['method']}).",
        "",
        "| layers | op | problem | value | kernel | predicted | measured | result |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in answer["runs"]:
        cells = [
            ", ".join(run["layers"]),
            f"`{run['op']}`",
            f"{run['extents']}: {run['problem']}",
            f"{run['extent']} {run['value']:,}",
            f"`{Tactic.parse(run['tactic']).kernel}`",
            "" if run["predicted_us"] is None else run["predicted_us"],
            run["measured_us"],
            run["error"],
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"
