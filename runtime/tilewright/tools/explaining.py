"""Explains which tactic computes a problem on a GPU, and why: for people, and as JSON. Needs no torch and
no GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from tilewright.base.tables import wrapped
from tilewright.declarations import catalog
from tilewright.declarations.matrices import MatrixView
from tilewright.errors import (
    AlignmentError,
    ArgumentError,
    NoKernelError,
    NotBuiltError,
    TilewrightError,
    UncompilableError,
)
from tilewright.formats.types import TMA_BYTES, TYPES
from tilewright.libraries.builds import jit_allowed

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.calls.placement import Placement
    from tilewright.context import Context
    from tilewright.declarations.table import KernelRecord
    from tilewright.declarations.tactics import Tactic
    from tilewright.libraries.registry import Registry
    from tilewright.selection.choice import Choice
    from tilewright.selection.estimates import Estimate
    from tilewright.selection.family import Family

SHOWN = 10  # candidates that are printed, and reasons


@dataclass(frozen=True, slots=True)
class Row:
    """A tactic that could run."""

    tactic: Tactic
    built: bool
    estimate: Estimate | None  # None if no cost model covers the kernel
    tuned_seconds: float | None  # of the problem's tuned entry, if this is it


@dataclass(frozen=True)
class Explanation:
    """A choice and the facts that led to it."""

    problem: Any
    device: str
    choice: Choice
    kernel_set: str  # the name of the set that the chosen kernel comes from
    several_sets: bool  # whether kernels of several sets could have been chosen
    built: bool
    raises: TilewrightError | None  # what a call would raise instead, because the kernel is not built
    rows: list[Row]  # in the model's order, then tactics without a model; the chosen one is among them
    left_out: list[tuple[str, int]]  # reasons, each with the number of kernels
    copied: tuple[Any, tuple[str, ...]] | None
    """The problem that the op computes instead, and the arguments that it copies."""
    unpadded: str
    """What a call does with operands whose rows follow one another without padding, if TMA cannot read those
    rows; empty if it can. The choice is for rows that TMA reads."""
    free: tuple[Tactic, float] | None
    """In batch-invariant mode, the choice without it, and the share of this choice's estimated time that it
    would save; None if the mode costs nothing, or if no model knows it."""
    order: str
    """In batch-invariant mode, how every m splits k; empty if it does not."""
    messages: list[str]  # about tuned files: files that were refused, entries that were dropped

    def as_json(self) -> dict[str, Any]:
        """The whole explanation for JSON."""
        return {
            "problem": asdict(self.problem),
            "copied": self.copied and {"problem": asdict(self.copied[0]), "arguments": self.copied[1]},
            "unpadded": self.unpadded,
            "device": self.device,
            "tactic": str(self.choice.tactic),
            "set": self.kernel_set,
            "built": self.built,
            "raises": self.raises and str(self.raises),
            "source": self.choice.source,
            "why": self.choice.why,
            "free": self.free and {"tactic": str(self.free[0]), "saved": self.free[1]},
            "order": self.order,
            "candidates": [
                {
                    "tactic": str(row.tactic),
                    "built": row.built,
                    "tuned_seconds": row.tuned_seconds,
                    **({} if row.estimate is None else row.estimate._asdict()),
                }
                for row in self.rows
            ],
            "left_out": [{"kernels": count, "reason": reason} for reason, count in self.left_out],
            "messages": self.messages,
        }

    def lines(self) -> Iterator[str]:
        """The text for people, with the first candidates only."""
        choice = self.choice
        yield str(self.problem)
        if self.copied:
            padded, arguments = self.copied
            copies = f"The op copies {', '.join(arguments)}; a kernel computes"
            yield f"No kernel takes these operands as they lie. {copies}"
            yield str(padded)
        if self.unpadded:
            yield self.unpadded
        if self.raises is None:
            origin = f", of the set {self.kernel_set}" if self.several_sets else ""
            yield f"An {self.device} would run {choice.tactic}, which is {_built(self.built)}{origin}."
        else:
            error = type(self.raises).__name__
            yield f"On an {self.device} the choice is {choice.tactic}, and a call raises {error}:"
            yield from (f"  {line}" for line in str(self.raises).splitlines())
        yield f"Why ({choice.source}): {choice.why}."
        if self.order:
            yield f"Batch-invariant mode splits k: {self.order}."
        if self.free:
            tactic, saved = self.free
            yield f"Batch-invariant mode costs {saved:.0%} of the estimated time; without it {tactic} runs."
        yield f"Candidates ({len(self.rows)} tactics), by the cost model:"
        for place, row in enumerate(self.rows):
            if place < SHOWN or row.tactic == choice.tactic:
                mark = ">" if row.tactic == choice.tactic else " "
                yield f"{mark}{place + 1:5}. {_estimated(row)}{_remarks(row)}".rstrip()
                yield f"        {row.tactic}"
        if len(self.rows) > SHOWN:
            yield "        (--json lists all)"
        yield from self._left_out_lines()
        for message in self.messages:
            yield f"Tuned files: {message}"

    def _left_out_lines(self) -> Iterator[str]:
        """The reasons for which kernels are left out: a line for the first ones, and one for the others."""
        if self.left_out:
            yield f"Left out: {sum(count for _, count in self.left_out)} kernels"
        for reason, count in self.left_out[:SHOWN]:
            yield from wrapped(reason, f"  {count:5}: ", " " * 9)
        if further := [count for _, count in self.left_out[SHOWN:]]:
            yield f"  {sum(further):5}: {len(further)} further reasons (--json lists all)"


def explain(
    context: Context,
    family: Family[Any],
    problem: Any,
    device: DeviceProperties,
    tactic: Tactic | None = None,
) -> Explanation:
    """Explains the selection in `context` for the problem; `tactic` overrules it.

    Raises what a selection raises: ArgumentError, NoKernelError, UnsupportedDeviceError.
    """
    registry = context.registry
    asked, copied = problem, None
    try:
        choice = context.select(family, problem, device, tactic)
    except NoKernelError as error:
        copied = None if tactic else _copied(context, family, problem, device, error)
        if copied is None:
            raise
        problem = copied[0]
        choice = context.select(family, problem, device)
    records = registry.route(family.name, device)
    tuned = context.tuned(family, device)
    entry = tuned.entry(problem) if tuned else None

    def row(of: Tactic, built: bool, estimate: Estimate | None) -> Row:
        return Row(of, built, estimate, entry.seconds if entry and entry.tactic == of else None)

    fitting = family.fitting(records, problem)
    ranked = family.weigh(fitting, problem, device, batch_invariant=context.batch_invariant)
    rows = [
        row(candidate.tactic, registry.is_built(candidate.record), candidate.estimate) for candidate in ranked
    ]
    unknown = [record for record in fitting if family.estimator(record, problem, device) is None]
    rows += [
        row(t, registry.is_built(record), None)
        for record in unknown
        for t in family.candidates(record, problem, device)
    ]
    for extra in filter(None, (choice.tactic, entry and entry.tactic)):
        if all(extra != line.tactic for line in rows):  # with a raster order, say, that tuning tries
            record = registry.record(extra.kernel)
            model = family.model(record, problem, device)
            added = row(extra, registry.is_built(record), model and model(extra))
            rows.insert(sum(_seconds(line) <= _seconds(added) for line in rows), added)
    built = registry.is_built(choice.record)
    return Explanation(
        problem=asked,
        copied=copied,
        unpadded="" if copied else _unpadded(context, family, problem, device),
        device=device.name,
        choice=choice,
        kernel_set=registry.set_of(registry.table_of(choice.record.name)),
        several_sets=len(registry.sets) > 1,
        built=built,
        raises=None if built else _raises(registry, choice.record),
        rows=rows,
        left_out=family.left_out(records, problem).most_common(),
        free=_free(context, family, problem, device, choice) if context.batch_invariant else None,
        order=family.invariant_order(choice.record, problem) if context.batch_invariant else "",
        messages=tuned.messages if tuned else [],
    )


def _free(
    context: Context, family: Family[Any], problem: Any, device: DeviceProperties, choice: Choice
) -> tuple[Tactic, float] | None:
    """The choice without batch-invariant mode, and the share of the time of `choice` that it saves."""
    free = context.sibling().select(family, problem, device)
    seconds = []
    for tactic, record in (choice[:2], free[:2]):
        weigh = family.model(record, problem, device)
        if weigh is None:
            return None
        seconds.append(weigh(tactic).seconds)
    saved = 1 - seconds[1] / seconds[0]
    return (free.tactic, saved) if saved > 0 else None


def _seconds(row: Row) -> float:
    return row.estimate.seconds if row.estimate else inf


def _raises(registry: Registry, record: KernelRecord) -> TilewrightError | None:
    """The error of a call that needs a kernel that is not built; None if the call builds the kernel."""
    if not jit_allowed():
        return registry.not_built(record)
    obstacle = registry.obstacle(record)
    error = UncompilableError if registry.refusal(record) else NotBuiltError
    return error(f"{record.name} is not built, and cannot be: {obstacle}") if obstacle else None


def _copied(
    context: Context, family: Family[Any], problem: Any, device: DeviceProperties, error: NoKernelError
) -> tuple[Any, tuple[str, ...]] | None:
    """The problem that the op computes instead of one that no kernel takes, and the arguments that it
    copies (for `out`, it writes elsewhere first), by its `Op.place`; None if it copies nothing. If that is
    not known, or the op refuses to copy, `error` says so."""
    try:
        placement = _placed(context, family, problem, device)
        return (placement.problem, tuple(sorted(placement.copies))) if placement.copies else None
    except ImportError:
        error.hint = (
            f"{error.hint}\nThe op may copy and pad its operands; without torch that is not known here."
        )
    except ArgumentError as refusal:
        error.hint = f"{error.hint}\nThe op copies none of it: {refusal}"
    return None


def _placed(context: Context, family: Family[Any], problem: Any, device: DeviceProperties) -> Placement:
    """What the op does with operands without gaps. Raises ImportError without torch."""
    catalog.family_module(family.name, "op")
    from tilewright.calls.placement import Arguments  # noqa: PLC0415 (it needs torch)
    from tilewright.calls.publish import published  # noqa: PLC0415

    op = next(op for op in published.values() if op.family is family)
    return op.place(context, Arguments.dense(op.interface, problem), device, {})


def _unpadded(context: Context, family: Family[Any], problem: Any, device: DeviceProperties) -> str:
    """What `Explanation.unpadded` says. Imports torch only if rows are misaligned."""
    interface = catalog.family_module(family.name, "interface").INTERFACE
    misaligned = []
    for matrix in interface.matrices.values():
        by_tma = matrix.alignment == TMA_BYTES and {matrix.rows, matrix.columns} <= {*interface.extents}
        if by_tma and not matrix.written and getattr(problem, matrix.name, True):
            lines = MatrixView.dense(matrix, problem).along(matrix.inner(problem))
            row_bits = lines.length * TYPES[matrix.type_of(problem)].bits
            if lines.number > 1 and row_bits % (8 * TMA_BYTES):
                misaligned.append(matrix.name)
    if not misaligned:
        return ""
    begin = (
        f"Rows of {' and '.join(misaligned)} without padding do not begin at multiples of {TMA_BYTES} bytes"
    )
    try:
        copies = sorted(_placed(context, family, problem, device).copies)
    except ImportError:
        return f"{begin}: a call copies them, or raises AlignmentError."
    except AlignmentError:
        return f"{begin}: a call raises AlignmentError unless the rows are padded."
    return f"{begin}: each call copies {' and '.join(copies)} unless the rows are padded." if copies else ""


def _built(built: bool) -> str:
    return "built" if built else "not built"


def _estimated(row: Row) -> str:
    if row.estimate is None:
        return "no estimate"
    seconds = row.estimate.seconds
    time = f"{seconds * 1e6:9.1f} us" if seconds < 1 else f"{seconds:9.3g} s"
    return f"{time}, bound by {row.estimate.limit:<5}"


def _remarks(row: Row) -> str:
    remarks = [] if row.built else ["not built"]
    if row.tuned_seconds is not None:
        remarks.append(f"tuned: {row.tuned_seconds * 1e6:.2f} us measured")
    return f" ({', '.join(remarks)})" if remarks else ""
