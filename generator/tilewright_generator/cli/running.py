"""The common part of `tilewright run` for all families: a run, checked and timed beside a peer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from tilewright.declarations import catalog
from tilewright_generator.cli import answers
from tilewright_generator.errors import UsageError
from tilewright_generator.project import Project

if TYPE_CHECKING:
    from tilewright.context import Context
    from tilewright.declarations.tactics import Tactic
    from tilewright.libraries.registry import Registry


@contextmanager
def usage_errors(option: Callable[[str], str] = str) -> Iterator[None]:
    """The message about an option's word: `--dtype fp3: ...`; `option` returns the option of an argument."""
    from tilewright.errors import ArgumentError  # noqa: PLC0415

    try:
        yield
    except ArgumentError as error:
        reason = error.message.removeprefix(f"{error.argument}: ")
        raise UsageError(f"{option(error.argument)} {reason}") from None


def run(
    family: str,
    problem: Any,
    *,
    kernel: str | None,
    iters: int,
    root: str | None,
    as_json: bool,
) -> int:
    """The exit code: 1 if the result is wrong or the machine has no GPU. Without a GPU it prints what would
    run on an H200."""
    from tilewright import context  # noqa: PLC0415 (`--help` needs no runtime)
    from tilewright.architectures.device import H200  # noqa: PLC0415
    from tilewright.declarations.tactics import Tactic  # noqa: PLC0415
    from tilewright.selection.families import family_of  # noqa: PLC0415
    from tilewright.tools.explaining import explain  # noqa: PLC0415

    tactic = Tactic.parse(kernel) if kernel else None
    lacking = missing()
    with context.use(context_in_force(root)) as current:
        if lacking:
            explanation = explain(current, family_of(family), problem, H200, tactic)
            if as_json:
                answers.print_json({"ran": False, "reason": lacking, **explanation.as_json()})
            else:
                click.echo("\n".join((f"Nothing was run: {lacking}.", *explanation.lines())))
            return 1
        result = _measure(current, family, problem, tactic, iters)
    if as_json:
        answers.print_json(result)
    else:
        click.echo(_text(problem, result))
    return 0


def missing() -> str | None:
    """The thing that a run needs and that is missing; None if nothing is missing."""
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        return "torch is not installed (pip install 'tilewright[torch]')"
    return None if torch.cuda.is_available() else "there is no CUDA GPU here"


def context_of(root: str | None) -> Context:
    """A context with the project's kernels and the sets in force. Outside a project: only the sets in
    force. No variable changes what it chooses."""
    from tilewright.context import Context  # noqa: PLC0415

    return Context(_registry_of(root))


def context_in_force(root: str | None) -> Context:
    """The context of `context_of` in the mode that a program would have, or the bundle that it would run
    from: TILEWRIGHT_BATCH_INVARIANT and TILEWRIGHT_BUNDLE count."""
    from tilewright import context  # noqa: PLC0415

    return context.of_environment(_registry_of(root))


def _registry_of(root: str | None) -> Registry:
    from tilewright.base import sets  # noqa: PLC0415
    from tilewright.libraries.registry import Registry  # noqa: PLC0415

    try:
        folder = Project.find(root).out
    except UsageError:
        if root is not None:
            raise
        return Registry()
    return Registry([kernel_set.generated for kernel_set in sets.beside(folder)])


def _measure(current: Context, name: str, problem: Any, tactic: Tactic | None, iters: int) -> dict[str, Any]:
    import torch  # noqa: PLC0415

    from tilewright.selection.families import family_of  # noqa: PLC0415
    from tilewright.tools import measuring  # noqa: PLC0415

    device = current.device(torch.cuda.current_device())
    (chosen, *_), _ = current.load(family_of(name), problem, device, tactic)
    of_family = catalog.family_module(name, "measuring")
    operands = measuring.make_operands(of_family, problem, device)
    error = measuring.checked(operands[0], chosen)
    ours = measuring.seconds(operands, chosen, iters)
    peer = measuring.peer_of(of_family, problem)
    theirs = measuring.peer_seconds(peer, operands, iters)
    return {
        "problem": asdict(problem),
        "device": device.name,
        "ran": True,
        "tactic": str(chosen),
        "error_norm": error,
        "means": operands[0].error_text,
        "seconds": ours,
        "peer": peer and peer[0],
        "peer_seconds": theirs,
        "ratio": theirs and theirs / ours,
    }


def _text(problem: Any, result: dict[str, Any]) -> str:
    lines = [
        str(problem),
        f"on {result['device']}: {result['tactic']}",
        f"right: {result['means'].format(result['error_norm'])}",
    ]
    timed = {"tilewright": result["seconds"], result["peer"]: result["peer_seconds"]}
    lines += [
        f"  {name:<16} {seconds * 1e6:10.2f} us{_rate(problem, seconds)}"
        f"  {problem.bytes / seconds * 1e-9:8.0f} GB/s"
        for name, seconds in timed.items()
        if seconds
    ]
    if result["ratio"]:
        lines.append(
            f"  ratio {result['ratio']:.3f} ({result['peer']}'s time over ours; CUDA graph, cold L2, median)"
        )
    return "\n".join(lines)


def _rate(problem: Any, seconds: float) -> str:
    """The rate of a problem that multiplies."""
    return f"  {problem.flops / seconds * 1e-12:8.1f} TFLOP/s" if hasattr(problem, "flops") else ""
