"""The report of a bundle: its contents, and the times of its products by the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.compile.report import BuildReport
from tilewright.context import Context
from tilewright.declarations.tactics import Tactic
from tilewright.models.product import Product
from tilewright.selection.families import family_of
from tilewright.tools.bundling.planning import Plan, Planned

POINTS = (1, 16, 128, 1024, 8192)  # values of an extent for which times are predicted
MEGABYTE = 1e6


def as_json(
    plan: Plan,
    context: Context,
    *,
    seconds: float,
    built: BuildReport | None = None,
    library_bytes: int = 0,
) -> dict[str, Any]:
    """The report for programs. seconds: the time of choosing; built: the build, if there was one."""
    code = {} if built is None else {unit.name: unit.data.get("code_bytes", 0) for unit in built.units}
    return {
        "title": plan.title,
        "device": plan.setting.device.name,
        "batch_invariant": plan.setting.batch_invariant,
        "values": sum(len(planned.product.values) for planned in plan.problems),
        "choosing_seconds": round(seconds, 1),
        "kernels": {name: code.get(name) for name in plan.kernels},
        "code_bytes": sum(code.values()),
        "library_bytes": library_bytes,
        "build_seconds": None if built is None else round(built.seconds, 1),
        "problems": [_problem(planned, plan, context) for planned in plan.problems],
        "left_out": [
            {"layer": out.layer, "what": out.what, "reason": out.reason, "count": out.count}
            for out in plan.left_out
        ],
    }


def _problem(planned: Planned, plan: Plan, context: Context) -> dict[str, Any]:
    product = planned.product
    values = product.values
    return {
        "layers": planned.layers,
        "op": product.op,
        "problem": product.example.kind_text,
        "extents": extents_text(product),
        "count": planned.count,
        "extent": product.extent,
        "values": [values[0], values[-1], values.step],
        "kernels": planned.kernels,
        "tactics": len({chosen.tactic for chosen in planned.choices}),
        "ranges": len(planned.choices),
        "sources": dict(Counter(chosen.source for chosen in planned.choices)),
        "predicted": {
            str(value): predicted(planned, value, plan, context) for value in POINTS if value in values
        },
    }


def extents_text(product: Product) -> str:
    """`n 6144, k 4096`: the extents that do not vary, without those that have their default."""
    from tilewright.declarations import catalog  # noqa: PLC0415

    extents = catalog.words_of(product.family).extents
    values = {extent.name: getattr(product.example, extent.name) for extent in extents}
    return ", ".join(
        f"{extent.name} {values[extent.name]}"
        for extent in extents
        if extent.name != product.extent and values[extent.name] != extent.default
    )


def predicted(planned: Planned, value: int, plan: Plan, context: Context) -> dict[str, Any]:
    """The tactic for a value, and its time by the model in microseconds; None if no model knows it."""
    tactic = next(chosen.tactic for chosen in reversed(planned.choices) if chosen.first <= value)
    family, parsed = family_of(planned.product.family), Tactic.parse(tactic)
    record = context.registry.record(parsed.kernel)
    model = family.model(record, planned.product.problem(value), plan.setting.device)
    return {"tactic": tactic, "microseconds": round(model(parsed).seconds * 1e6, 2) if model else None}


def summary_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The report in a few lines, for a terminal."""
    yield from listing_lines(report)
    yield (
        f"{_counted(report['problems'], 'problem')}, {report['values']:,} values, "
        f"{_counted(report['kernels'], 'kernel')}; "
        f"chosen in {report['choosing_seconds']:.0f} s"
    )
    if report["build_seconds"] is not None:
        yield f"{report['library_bytes'] / MEGABYTE:.1f} MB, built in {report['build_seconds']:.0f} s"


def listing_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The problems, with the times of a few values, and what is left out."""
    for problem in report["problems"]:
        kernels = _counted(problem["kernels"], "kernel")
        what = f"{problem['extents']}: {problem['problem']}"
        yield f"{', '.join(problem['layers'])}: {problem['count']} times {what}, {kernels}"
        times = [
            f"{value}: {time['microseconds']} us"
            for value, time in problem["predicted"].items()
            if time["microseconds"] is not None
        ]
        if times:
            yield f"    by the model, {problem['extent']} of {', '.join(times)}"
    for out in report["left_out"]:
        yield f"left to the caller: {out['layer']} ({out['what']}), {out['count']} times: {out['reason']}"


def _counted(several: Sequence[Any] | Mapping[str, Any], noun: str) -> str:
    return f"{len(several)} {noun}{'' if len(several) == 1 else 's'}"


def markdown(report: Mapping[str, Any]) -> str:
    """The report for people."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {report['title']} on {report['device']}"
    yield ""
    mode = " The tactics are batch-invariant." if report["batch_invariant"] else ""
    yield (
        f"{_counted(report['problems'], 'problem')}, {_counted(report['kernels'], 'kernel')}. "
        f"Selection was asked about each of {report['values']:,} values of the problems' extents, which took "
        f"{report['choosing_seconds']:.0f} s.{mode}"
    )
    if report["build_seconds"] is not None:
        yield (
            f"The libraries have {report['library_bytes'] / MEGABYTE:.1f} MB, of which "
            f"{report['code_bytes'] / MEGABYTE:.1f} MB are the kernels' machine code; building took "
            f"{report['build_seconds']:.0f} s."
        )
    yield ""
    yield "Times are the model's, in microseconds, for one launch; *count* is launches in a forward pass."
    yield ""
    points = "".join(f" {value} |" for value in POINTS)
    yield f"| layers | op | problem | values | count | kernels | ranges |{points}"
    yield "|---|---|---|---|---|---|---|" + "---|" * len(POINTS)
    for problem in report["problems"]:
        yield _row(problem)
    if report["left_out"]:
        yield ""
        yield "## Left to the caller"
        yield ""
        yield "| layer | what | count | why |"
        yield "|---|---|---|---|"
        for out in report["left_out"]:
            reason = out["reason"].partition("\n")[0].rstrip(":")
            yield f"| {out['layer']} | {out['what']} | {out['count']} | {reason} |"
    yield ""
    yield "## Kernels"
    yield ""
    yield "| kernel | bytes of machine code |"
    yield "|---|---|"
    for name, code in report["kernels"].items():
        yield f"| `{name}` | {'not built' if code is None else f'{code:,}'} |"


def _row(problem: Mapping[str, Any]) -> str:
    first, last, step = problem["values"]
    values = f"{problem['extent']} {first}" + (f" to {last:,}" if last != first else "")
    values += f", in steps of {step}" if step > 1 and last != first else ""
    times = [problem["predicted"].get(str(value)) for value in POINTS]
    cells = [
        ", ".join(problem["layers"]),
        f"`{problem['op']}`",
        f"{problem['extents']}: {problem['problem']}",
        values,
        problem["count"],
        len(problem["kernels"]),
        problem["ranges"],
        *("" if time is None or time["microseconds"] is None else time["microseconds"] for time in times),
    ]
    return f"| {' | '.join(map(str, cells))} |"
