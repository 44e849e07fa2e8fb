"""Tuned files: what tuning found, one JSON file a GPU and family, `<folder>/<gpu>/<family>.json`.

    {"format": 1, "family": "gemm", "gpu": ..., "capability": ..., "sm_count": ..., "driver": ...,
     "cuda": ..., "cutlass": ...,
     "kinds": [{"kind": {...}, "candidates": "67 kernels, 0123456789abcdef", "tuned": [
       {"m": 32, "n": 5120, "k": 25600, "batch": 1, "tactic": "NAME@splits=4", "seconds": 1.23e-05},

One entry to a line. Tactics stand by name. A section is of a kind of problem and of the kernels that there
were to choose from; where these change, a new section begins and the old one stays.

A file is replaced whole, under a lock: a reader, and whoever kills a writer, finds the old one or the new.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright import ops
from tilewright.errors import ForeignTunedFileError, StoreError, TunedFileError
from tilewright.ops.common.tactics import Tactic
from tilewright.tuning.header import FORMAT, Header

if TYPE_CHECKING:
    from tilewright.ops.common.family import Family
    from tilewright.registry import Registry
    from tilewright.table import KernelRecord

Key = tuple[Any, ...]  # values in the order of fields, hashable


class Entry(NamedTuple):
    """A problem's fastest tactic, and the seconds that one launch of it took."""

    problem: Any
    tactic: Tactic
    seconds: float


@dataclass(slots=True)
class Section:
    """What a file holds of one kind of problem, for one set of kernels."""

    kind: Mapping[str, Any]  # the problem's `kind_fields`
    candidates: str  # as `candidates_of` writes it
    rows: list[dict[str, Any]] = field(default_factory=list)  # extents by name, "tactic" (text), "seconds"


@dataclass(slots=True)
class TunedFile:
    """A tuned file as it was read: its header is not judged, and its tactics are not looked up."""

    header: Header
    family: str
    sections: list[Section]


def kind_fields(family: Family[Any]) -> list[dataclasses.Field[Any]]:
    """The fields by which files know a kind of problem: neither extents nor how operands lie."""
    others = (*family.extents, *family.placement)
    return [one for one in dataclasses.fields(family.problem) if one.name not in others]


def kind_of(family: Family[Any], problem: Any) -> dict[str, Any]:
    """The problem's values of `kind_fields`."""
    return {one.name: getattr(problem, one.name) for one in kind_fields(family)}


def extents_of(family: Family[Any], problem: Any) -> Key:
    return tuple(getattr(problem, name) for name in family.extents)


def kind_text(family: Family[Any], problem: Any) -> str:
    """A problem's words without its extents: `gemm bf16 x bf16 -> bf16, layout tn`."""
    # With extents of 1 the second word is all that a problem says of them: no batch, no groups.
    words = str(dataclasses.replace(problem, **dict.fromkeys(family.extents, 1))).split(" ")
    return " ".join([words[0], *words[2:]])


def is_row(row: Mapping[str, Any], family: Family[Any]) -> bool:
    """Whether an entry of a file names all extents of the family's problems, and no more."""
    return set(row) == {*family.extents, "tactic", "seconds"}


def frozen(kind: Mapping[str, Any]) -> Key:
    """A kind, to look it up by."""
    return tuple(kind.items())


def candidates_of(records: Iterable[KernelRecord]) -> str:
    """How many kernels there are to choose from, and a hash of their names."""
    names = sorted(record.name for record in records)
    return f"{len(names)} kernels, {hashlib.sha256(chr(10).join(names).encode()).hexdigest()[:16]}"


def what_changed(before: str, now: str, family: Family[Any]) -> str:
    """Of two different `candidates_of`, in words for people."""
    first, second = (text.partition(" ")[0] for text in (before, now))
    if first == second:
        change = f"of the {first} kernels to choose from some are others now"
    else:
        change = f"the number of kernels to choose from was {first} and is {second} now"
    return f"{change}; `tilewright tune --family {family.name}` with these problems tunes them anew"


def read(path: Path) -> TunedFile:
    """Reads a tuned file.

    Raises FileNotFoundError where there is none, TunedFileError where it is damaged, ForeignTunedFileError
    where it is of another format.
    """
    try:
        data = json.loads(path.read_bytes())
        if type(data["format"]) is int and data["format"] != FORMAT:
            raise ForeignTunedFileError(f"{path}: format {data['format']}, this tilewright reads {FORMAT}")
        sections = [_section(one) for one in data["kinds"]]
        return TunedFile(Header.parse(data), str(data["family"]), sections)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise TunedFileError(f"{path}: {error.strerror or error}") from None
    except RecursionError:  # brackets in brackets, deeper than json follows
        raise TunedFileError(f"{path} is damaged: it is nested too deeply") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TunedFileError(f"{path} is damaged: {_said(error)}") from None


def family_of(path: Path, file: TunedFile) -> Family[Any]:
    """Raises ForeignTunedFileError for a file of a family that there is not."""
    from tilewright.benchmarking import problems  # noqa: PLC0415 (a selection knows its family)

    if file.family not in problems.FAMILIES:
        raise ForeignTunedFileError(
            f"{path} is of {file.family}; the families are {', '.join(problems.FAMILIES)}"
        )
    return ops.family_of(file.family)


def update(
    path: Path, header: Header, family: Family[Any], registry: Registry, entries: Iterable[Entry]
) -> None:
    """Adds entries, which replace older ones of the same problems; all are on disk when it returns.

    Under a lock, so that no process loses another's entries. What the file holds otherwise stays.

    Raises TunedFileError where the file that is there is damaged, ForeignTunedFileError where it is of
    something else than `header` (neither is changed), StoreError where it cannot be written,
    NoKernelError for an entry of an unknown kernel.
    """
    with _locked(path):
        sections = sections_to_update(path, header, family)
        runnable = registry.runnable(family.name, header.capability_numbers)
        for entry in entries:
            kind = kind_of(family, entry.problem)
            candidates = candidates_of(family.of_kind(registry, runnable, entry.problem.kind))
            section = sections.setdefault((frozen(kind), candidates), Section(kind, candidates))
            section.rows.append(
                {
                    **dict(zip(family.extents, extents_of(family, entry.problem), strict=True)),
                    "tactic": str(entry.tactic),
                    "seconds": float(f"{entry.seconds:.4g}"),  # more digits are noise
                }
            )
        for section in sections.values():
            by_extents = {_m_last(row, family.extents): row for row in section.rows}
            section.rows = [by_extents[key] for key in sorted(by_extents)]
        _write(path, _text(TunedFile(header, family.name, list(sections.values()))))


def set_aside(path: Path) -> Path:
    """Renames a damaged file to the first free NAME.broken-N and returns that."""
    with _locked(path):
        number = 1
        while (target := path.with_name(f"{path.name}.broken-{number}")).exists():
            number += 1
        try:
            path.rename(target)
        except OSError as error:
            raise _failure(path, error) from None
        return target


def _section(data: Mapping[str, Any]) -> Section:
    for row in data["tuned"]:
        extents = [value for name, value in row.items() if name not in ("tactic", "seconds")]
        if (
            not all(type(extent) is int and extent > 0 for extent in extents)
            or not isinstance(row["tactic"], str)
            or not 0 < row["seconds"] < inf
        ):
            raise ValueError(f"{json.dumps(row)} is no entry")
    for value in data["kind"].values():
        if not isinstance(value, (str, int, float, bool)):
            raise ValueError(f"{json.dumps(value)} says nothing of a kind of problem")
    if not isinstance(data["candidates"], str):
        raise ValueError("the candidates of a section are no text")
    return Section(dict(data["kind"]), data["candidates"], data["tuned"])


def _said(error: Exception) -> str:
    return f"there is no {error}" if isinstance(error, KeyError) else str(error)


def sections_to_update(path: Path, header: Header, family: Family[Any]) -> dict[tuple[Key, str], Section]:
    """What the file that is there holds (nothing, where there is none), by kind and candidates. Raises what
    `update` raises for that file."""
    try:
        there = read(path)
    except FileNotFoundError:
        return {}
    reason = header.mismatch(there.header, shipped=False)
    if there.family != family.name:
        reason = f"it is of {there.family}"
    if reason is not None:
        raise ForeignTunedFileError(
            f"{path} is of another machine: {reason}",
            hint="Move it away, or name another folder in TILEWRIGHT_TUNED.",
        )
    for row in (row for section in there.sections for row in section.rows):
        if not is_row(row, family):
            raise TunedFileError(f"{path} is damaged: {json.dumps(row)} is no entry")
    return {(frozen(section.kind), section.candidates): section for section in there.sections}


def _text(file: TunedFile) -> str:
    head = {"format": FORMAT, "family": file.family, **dataclasses.asdict(file.header)}
    parts = []
    for section in sorted(file.sections, key=lambda one: (json.dumps(one.kind), one.candidates)):
        opening = json.dumps({"kind": section.kind, "candidates": section.candidates})[:-1]
        lines = ",\n".join(f"  {json.dumps(row)}" for row in section.rows)
        parts.append(f'{opening}, "tuned": [\n{lines}\n]}}')
    return f'{json.dumps(head)[:-1]}, "kinds": [\n' + ",\n".join(parts) + "\n]}\n"


def _m_last(row: Mapping[str, Any], extents: Sequence[str]) -> Key:
    """What a bucket compares then stands together."""
    first, *others = (row[name] for name in extents)
    return (*others, first)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    import filelock  # noqa: PLC0415 (60 ms, and reading needs no lock)

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(path.with_name(f"{path.name}.lock")):
            yield
    except OSError as error:
        raise _failure(path, error) from None


def _write(path: Path, text: str) -> None:
    """The caller holds the lock, so older drafts are debris of the killed."""
    prefix = f".{path.name}."
    for debris in [each for each in path.parent.iterdir() if each.name.startswith(prefix)]:
        with suppress(OSError):
            debris.unlink()
    draft = path.with_name(f"{prefix}{os.getpid()}")
    with draft.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _failure(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path} cannot be written: {error.strerror or error}",
        hint="Name a folder that can be written, with room, in TILEWRIGHT_TUNED.",
    )
