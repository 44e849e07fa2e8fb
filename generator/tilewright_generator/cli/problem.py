"""`tilewright explain --problem`: what computes a problem, and why. Needs no GPU and no torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from tilewright_generator.cli import running


def explain_problem(words: Sequence[str], device: str | None, root: Path | None, as_json: bool) -> None:
    """Prints the candidates, what bounds them, and why the chosen one won."""
    from tilewright.architectures import device as devices  # noqa: PLC0415 (`--help` needs no runtime)
    from tilewright.selection.families import family_of  # noqa: PLC0415
    from tilewright.tools.benchmarking import problems  # noqa: PLC0415
    from tilewright.tools.explaining import explain  # noqa: PLC0415

    with running.usage_errors():
        family, problem = problems.of_words(words)
    gpu = devices.DESCRIBED[device] if device else devices.present() or devices.H200
    context = running.context_in_force(None if root is None else str(root))
    explanation = explain(context, family_of(family), problem, gpu)
    for line in [json.dumps(explanation.as_json(), indent=1)] if as_json else explanation.lines():
        click.echo(line)
