"""docs/status.md: what every kernel has been through, for people. Written, never edited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tilewright_generator.status import CURRENT, FAILED, NEVER, STALE, Modules, Verdict
from tilewright_generator.words import counted

ALL = "all"
_HEAD = """\
# What every kernel has been through

Written by `tilewright status --write` from the records in
[benchmarks/results](../benchmarks/results/README.md); do not edit. `tilewright list` says the same on a
terminal, by module, name and field.

- *compiled*: nvcc built the kernel, and its machine code holds the tensor-core instructions that it must.
- *run*: its results were compared with float64 references on a GPU.
- *stale*: so it was with another source, header, flag or CUTLASS release; a run still counts while the
  kernel is compiled to the machine code that ran.
- *failed*: its last run went wrong.
- *never*: no record says so. That is not a failure.

Columns *compiled* and *run* count what still holds.
"""
_COUNTED = (
    "kernels", "compiled", "compiled, stale", "never compiled", "run", "run, stale", "failed", "never run",
)  # fmt: skip
_COLUMNS = (
    "kernel", "compiled", "registers", "shared memory", "spills", "instructions", "run on", "problems",
    "largest error",
)  # fmt: skip


def page(modules: Modules) -> str:
    """The text of docs/status.md: counts by module and by target, then each module's kernels, folded."""
    by_module, by_target = groups(modules)
    linked = [(f"[{name}](#{name})" if name != ALL else ALL, found) for name, found in by_module]
    lines = [_HEAD, *_summary("module", linked), "", *_summary("target", by_target)]
    for module, found in modules:
        lines += ["", f"## {module}", "", f"<details><summary>{sentence(found)}</summary>", ""]
        lines += [*_header(_COLUMNS), *map(_row, found), "", "</details>"]
    return "\n".join(lines) + "\n"


def groups(modules: Modules) -> tuple[Modules, Modules]:
    """The verdicts by module, and by target; all of them last."""
    every = [verdict for _, found in modules for verdict in found]
    targets = sorted({verdict.target for verdict in every}, key=_by_number)
    by_target = [(target, [one for one in every if one.target == target]) for target in targets]
    return [*modules, (ALL, every)], [*by_target, (ALL, every)]


def sentence(found: Sequence[Verdict]) -> str:
    """How many kernels there are, and how many were compiled and run."""
    compiled, stale, never, run, old, failed, not_run = _counts(found)

    def several(counts: Iterable[tuple[int, str]]) -> str:
        return ", ".join(f"{count} {word}" for count, word in counts if count)

    was = several(((compiled, CURRENT), (stale, STALE), (never, NEVER)))
    ran = several(((run, CURRENT), (old, STALE), (failed, FAILED), (not_run, NEVER)))
    return f"{counted(len(found), 'kernel')}; compiled: {was}; run: {ran}"


def _by_number(target: str) -> tuple[int, str]:
    return int("".join(filter(str.isdigit, target)) or 0), target


def _summary(title: str, several: Modules) -> Iterator[str]:
    yield from _header((title, *_COUNTED))
    for name, found in several:
        cells = (name, len(found), *_counts(found))
        yield _cells(cells if name != ALL else (f"**{cell}**" for cell in cells))


def _counts(found: Iterable[Verdict]) -> list[int]:
    compiled, run = Counter(each.compiled for each in found), Counter(each.run for each in found)
    words = (CURRENT, STALE, NEVER)
    return [compiled[word] for word in words] + [run[word] for word in (CURRENT, STALE, FAILED, NEVER)]


def _row(verdict: Verdict) -> str:
    numbers, check = verdict.numbers, verdict.check
    spills = str(numbers["spill_store_bytes"] + numbers["spill_load_bytes"]) if numbers else ""
    if spills not in ("", "0") and verdict.spills:
        spills += f": {verdict.spills}"
    instructions = " ".join(numbers["tensor_instructions"]) if numbers else ""
    run = f"{check['gpu']}, {verdict.run}" if check else NEVER
    error = f"{check['max_error']:.1e}" if check.get("max_error") is not None else ""
    resources = (numbers.get("registers", ""), numbers.get("smem_bytes", ""), spills, instructions)
    kernel = (f"`{verdict.name}`", verdict.compiled)
    return _cells((*kernel, *resources, run, check.get("problems", ""), error))


def _header(titles: Sequence[str]) -> tuple[str, str]:
    return _cells(titles), "|" + "---|" * len(titles)


def _cells(values: Iterable[object]) -> str:
    return "| " + " | ".join(map(str, values)) + " |"
