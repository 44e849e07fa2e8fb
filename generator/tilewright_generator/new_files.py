"""Files that a command starts for a user: rendered from templates, and written where nothing stands."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tilewright.base import writing
from tilewright_generator.errors import UsageError


class Outcome(NamedTuple):
    """What was written, and what was there and is kept."""

    written: list[Path]
    kept: list[Path]


def rendered(templates: Path, variables: Mapping[str, str], places: Mapping[str, str]) -> dict[str, str]:
    """The texts of all templates (`*.j2`) below a folder, by the paths of their files.

    `places`: parts of paths that stand for others. The brackets are `@{ }@`, because these templates hold
    templates of kernels, with the usual ones.
    """
    import jinja2  # noqa: PLC0415 (`--help` needs none)

    environment = jinja2.Environment(
        variable_start_string="@{", variable_end_string="}@",
        block_start_string="@%", block_end_string="%@", comment_start_string="@#", comment_end_string="#@",
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False,
    )  # fmt: skip
    texts: dict[str, str] = {}
    for template in sorted(templates.rglob("*.j2")):
        place = template.relative_to(templates).as_posix().removesuffix(".j2")
        for part, meaning in places.items():
            place = place.replace(part, meaning)
        text = template.read_text(encoding="utf-8")
        texts[place] = environment.from_string(text).render(**variables)
    return texts


def write(
    texts: Mapping[str, str], folder: Path, *, may_stay: Collection[str], instead: str, dry_run: bool = False
) -> Outcome:
    """Writes files below a folder, where nothing stands; `may_stay` names those that are kept where they do.

    Raises UsageError, and writes nothing, where another one stands; `instead` says what to do then.
    """
    files = {folder / path: text for path, text in texts.items()}
    present = [path for path in files if path.exists()]
    if taken := [path for path in present if path.relative_to(folder).as_posix() not in may_stay]:
        raise UsageError(f"{taken[0]} is there already, and nothing was written; {instead}")
    written = [path for path in files if path not in present]
    for path in written:
        writing.check(path, folder)
        _check_folders(path)
    if not dry_run:
        _write_all({path: files[path] for path in written}, folder)
    return Outcome(written, present)


def _check_folders(path: Path) -> None:
    """Raises UsageError if something else than a folder stands above a file."""
    place = next(place for place in path.parents if os.path.lexists(place))
    if not place.is_dir():
        raise UsageError(
            f"{place} is no folder, and nothing was written; move it away, or name another folder"
        )


def _write_all(texts: Mapping[Path, str], folder: Path) -> None:
    """Writes all files and their folders; or none, if that fails or is interrupted."""
    written: list[Path] = []
    try:
        for path, text in texts.items():
            for place in reversed([place for place in path.parents if not place.exists()]):
                place.mkdir()
                written.append(place)
            writing.write(path, text, folder)
            written.append(path)
    except BaseException as error:
        for place in reversed(written):
            with suppress(OSError):
                place.rmdir() if place.is_dir() else place.unlink()
        if isinstance(error, OSError):
            raise UsageError(f"cannot write {path}: {error.strerror}; nothing was written") from None
        raise
