"""The parts of `tilewright tune` that measure nothing: --merge and --report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.declarations import catalog
from tilewright_generator.cli import answers
from tilewright_generator.cli.tuning_settings import Settings
from tilewright_generator.cli.verbosity import note
from tilewright_generator.errors import UsageError
from tilewright_generator.plurals import counted

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.libraries.registry import Registry
    from tilewright.selection.family import Family


def merge(
    files: Sequence[Path],
    family: Family[Any] | None,
    registry: Registry,
    target: Callable[[str, str], Path],
    *,
    as_json: bool,
) -> None:
    """Adds the entries of the files (only those of `family`, if one is given) to the files that `target`
    names."""
    from tilewright.tools.tuning import merging  # noqa: PLC0415 (`--help` needs no runtime)

    merged = []
    for path, count, messages in merging.merge(files, family, registry, target):
        merged.append({"path": path, "entries": count, "passed_over": messages})
        for message in messages:
            note(message)
        if not as_json:
            click.echo(f"{count} {'entry' if count == 1 else 'entries'} went to {path}")
    if as_json:
        answers.print_json({"merged": merged})


def draw(
    settings: Settings,
    files: Sequence[Path],
    family: Family[Any] | None,
    registry: Registry,
    device: DeviceProperties | None,
) -> dict[str, Any]:
    """Draws the given files, or those that ops would use; only those of `family`, if one is given. Prints
    what is drawn, and which files are written."""
    from tilewright.architectures import device as devices  # noqa: PLC0415
    from tilewright.tools.tuning import report as reports  # noqa: PLC0415

    assert settings.report is not None
    report = reports.draw(
        settings.report, files or _in_force(registry, (device or devices.H200).name, family), family, device
    )
    for file in settings.outputs():
        if file.path in report.files:
            file.write(report.files[file.path])
    drawn = [
        {"family": part.family, "problems": len(part.points), "files": list(part.sources)}
        for part in report.parts
    ]
    return {"report": settings.report, "drawn": drawn, "written": list(report.files)}


def told(answer: Mapping[str, Any]) -> str:
    """The answer of `draw` for people."""
    parts = (
        f"{counted(part['problems'], 'problem')} of {part['family']} ({', '.join(map(str, part['files']))})"
        for part in answer["drawn"]
    )
    return f"drawn in {' and '.join(map(str, answer['written']))}: {'; '.join(parts)}"


def _in_force(registry: Registry, gpu: str, family: Family[Any] | None) -> list[Path]:
    """The tuned files that ops would use on a GPU."""
    from tilewright.base import paths  # noqa: PLC0415

    names = catalog.names() if family is None else (family.name,)
    files = [path for name in names for path, _ in paths.tuned_files(registry.folders, gpu, name)]
    if not files:
        of_family = "" if family is None else f" of {family.name}"
        raise UsageError(f"there is no tuned file{of_family} for {gpu}; name a FILE")
    return files
