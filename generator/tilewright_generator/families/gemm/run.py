"""`tilewright run gemm`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from tilewright_generator.errors import UsageError
from tilewright_generator.project import Project

if TYPE_CHECKING:
    from tilewright.context import Context
    from tilewright.device import DeviceProperties
    from tilewright.ops.common.family import Candidate
    from tilewright.ops.common.tactics import Tactic
    from tilewright.ops.gemm.problem import Problem

_SHOWN = 5  # candidates of a dry run


@click.command()
@click.option("-m", type=click.IntRange(min=1), required=True, help="Rows of A and D.")
@click.option("-n", type=click.IntRange(min=1), required=True, help="Columns of B and D.")
@click.option("-k", type=click.IntRange(min=1), required=True, help="Columns of A, rows of B.")
@click.option(
    "--dtype",
    default="bf16",
    show_default=True,
    metavar="TYPE",
    help="bf16, f16, fp8 (e4m3), e5m2, tf32, s8.",
)
@click.option("--out-dtype", metavar="TYPE", help="Type of D (default: the operands', FP8: bf16).")
@click.option("--layout", type=click.Choice(["tn", "tt", "nn", "nt"]), default="tn", show_default=True)
@click.option("--batch", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--activation", type=click.Choice(["none", "relu", "gelu", "silu"]), default="none")
@click.option("--fast-accum", is_flag=True, help="Allow fast accumulation of FP8.")
@click.option("--kernel", metavar="NAME", help="This kernel, or tactic (NAME@splits=4), instead of the best.")
@click.option(
    "--iters", type=click.IntRange(min=1), default=15, show_default=True, help="Replays of the graph."
)
@click.option(
    "--root", metavar="DIRECTORY", help="Project whose kernels run (default: the nearest, else tilewright's)."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--dry-run", is_flag=True, help="Only say what would run; needs no GPU and no torch.")
def command(
    *, kernel: str | None, iters: int, root: str | None, as_json: bool, dry_run: bool, **options: Any
) -> int:
    """D[m,n] = A[m,k] B[k,n] on random data.

    Exits 1 where the result is wrong, and where there is no GPU (but for --dry-run).
    """
    from tilewright import context  # noqa: PLC0415 (`--help` needs no runtime)
    from tilewright.ops.common.tactics import Tactic  # noqa: PLC0415

    problem = _problem(**options)
    tactic = Tactic.parse(kernel) if kernel else None
    missing = None if dry_run else _missing()
    with context.use(_context(root)):
        if dry_run or missing:
            return _dry_run(problem, tactic, missing, as_json)
        return _run(problem, tactic, iters, as_json)


def _context(root: str | None) -> Context:
    """With the kernels of the project, as `generate` and `build` see them; outside of one, with our own."""
    from tilewright.context import Context  # noqa: PLC0415
    from tilewright.registry import Registry  # noqa: PLC0415

    try:
        return Context(Registry(Project.find(root).out))
    except UsageError:
        if root is not None:
            raise
        return Context()


def _problem(
    *,
    m: int,
    n: int,
    k: int,
    dtype: str,
    out_dtype: str | None,
    layout: str,
    batch: int,
    activation: str,
    fast_accum: bool,
) -> Problem:
    from tilewright.ops.gemm.problem import OUTPUTS, Problem  # noqa: PLC0415

    a = {"fp8": "e4m3", "int8": "s8", "fp16": "f16", "f32": "tf32"}.get(dtype, dtype)
    b = "e4m3" if a == "e5m2" else a
    if (a, b) not in OUTPUTS:
        raise UsageError(f"--dtype {dtype}: one of bf16, f16, fp8, e5m2, tf32, s8 is wanted")
    d = out_dtype or OUTPUTS[a, b][0]
    if d not in OUTPUTS[a, b]:
        raise UsageError(f"--out-dtype {d}: {a} x {b} gives {' or '.join(OUTPUTS[a, b])}")
    return Problem(m, n, k, batch, a, b, d, layout, activation=activation, fast_accum=fast_accum)


def _missing() -> str | None:
    """What there is not that a run needs; None where all is there."""
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        return "torch is not installed"
    return None if torch.cuda.is_available() else "there is no CUDA GPU here"


def _ranked(problem: Problem, device: DeviceProperties) -> list[Candidate]:
    from tilewright import context  # noqa: PLC0415
    from tilewright.ops.gemm.family import FAMILY  # noqa: PLC0415

    registry = context.current().registry
    return FAMILY.rank(registry.route("gemm", device), problem, device, registry.is_built)


def _dry_run(problem: Problem, tactic: Tactic | None, missing: str | None, as_json: bool) -> int:
    from tilewright import context  # noqa: PLC0415
    from tilewright.device import H200  # noqa: PLC0415
    from tilewright.ops.gemm.family import FAMILY  # noqa: PLC0415

    registry = context.current().registry
    chosen, record = FAMILY.choose(registry, registry.route("gemm", H200), problem, H200, tactic)
    built = registry.is_built(record)
    candidates = _ranked(problem, H200)[:_SHOWN]
    if as_json:
        listed = [
            {"tactic": str(one.tactic), "built": one.built, **asdict(one.estimate)} for one in candidates
        ]
        answer = {"problem": asdict(problem), "device": H200.name, "ran": False, "reason": missing}
        click.echo(
            json.dumps({**answer, "tactic": str(chosen), "built": built, "candidates": listed}, indent=1)
        )
        return 1 if missing else 0
    if missing:
        click.echo(f"Nothing was run: {missing}.")
    click.echo(
        f"{problem}\non an {H200.name} would run {chosen}, which is {'built' if built else 'not built'}."
    )
    click.echo("The model's first candidates:")
    for one in candidates:
        estimate = one.estimate
        mark = "" if one.built else " (not built)"
        click.echo(f"  {estimate.seconds * 1e6:9.1f} us, bound by {estimate.bound:<4}  {one.tactic}{mark}")
    return 1 if missing else 0


def _run(problem: Problem, tactic: Tactic | None, iters: int, as_json: bool) -> int:
    import torch  # noqa: PLC0415

    from tilewright import context  # noqa: PLC0415
    from tilewright.ops.gemm import measuring  # noqa: PLC0415
    from tilewright.ops.gemm.family import FAMILY  # noqa: PLC0415

    current = context.current()
    device = current.device(torch.cuda.current_device())
    records = current.registry.route("gemm", device)
    chosen, record = FAMILY.choose(current.registry, records, problem, device, tactic)
    current.registry.library(record)
    operands = measuring.make_operands(problem, device)
    error = measuring.check(problem, operands[0], operands[0].call(problem, chosen))
    ours = measuring.seconds(problem, operands, chosen, iters)
    peer = measuring.peer(problem)
    theirs = measuring.peer_seconds(problem, operands, iters)
    result = {
        "problem": asdict(problem),
        "device": device.name,
        "ran": True,
        "tactic": str(chosen),
        "error_norm": error,
        "seconds": ours,
        "peer": peer and peer[0],
        "peer_seconds": theirs,
        "ratio": theirs and theirs / ours,
    }
    if as_json:
        click.echo(json.dumps(result, indent=1))
        return 0
    click.echo(f"{problem}\non {device.name}: {chosen}\nright: error norm {error:.2e} against float64")
    rows = [("tilewright", ours)] + ([(peer[0], theirs)] if peer and theirs else [])
    for name, seconds in rows:
        click.echo(
            f"  {name:<16} {seconds * 1e6:10.2f} us  {problem.flops / seconds * 1e-12:8.1f} TFLOP/s"
            f"  {problem.bytes / seconds * 1e-9:8.0f} GB/s"
        )
    if theirs:
        click.echo(
            f"  ratio {theirs / ours:.3f} ({rows[1][0]}'s time over ours; CUDA graph, cold L2, median)"
        )
    return 0
