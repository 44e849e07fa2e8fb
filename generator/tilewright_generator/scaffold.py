"""A new family of kernels: the files of a plugin that is complete and small, to be changed into another."""

from __future__ import annotations

import keyword
import re
from importlib.util import find_spec
from pathlib import Path

import tilewright
from tilewright.base import paths
from tilewright.base.spelling import cut
from tilewright.configurations.sources import camel
from tilewright.declarations import catalog
from tilewright_generator import new_files
from tilewright_generator.cpp_names import CPP_KEYWORD
from tilewright_generator.errors import UsageError

TEMPLATES = Path(__file__).with_name("family_template")  # a file's template has its path, with NAME, and .j2
MOST_CHARACTERS = 32  # kernels' names have more parts, and are read in tables
_SHARED = ("pyproject.toml", ".gitignore")  # a project has one of each, for all its families
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def check_name(name: str) -> None:
    """Raises UsageError, with advice, for a name that a family cannot have: it is also a module of Python,
    a namespace of C++ within `tilewright`, and the public op `tilewright.NAME`."""
    if not _NAME.fullmatch(name) or len(name) > MOST_CHARACTERS:
        raise UsageError(
            f"{cut(name)!r} is no name for a family: expected at most {MOST_CHARACTERS} lower-case letters, "
            f"digits and single underscores, starting with a letter{_advice(name)}"
        )
    if keyword.iskeyword(name) or CPP_KEYWORD.fullmatch(name):
        raise UsageError(f"{name!r} is a keyword; choose another name, such as '{name}_rows'")
    if name in catalog.names():
        raise UsageError(f"there is a family {name!r} already: {catalog.packages()[name]}")
    if owner := catalog.of_op(name):
        raise UsageError(f"the op tilewright.{name} exists already{owner}")
    if find_spec(f"tilewright.{name}") is not None or name in vars(tilewright) or name in dir(tilewright):
        raise UsageError(f"tilewright.{name} is something else already; choose another name for the op")
    if header := _namesake(name):
        raise UsageError(
            f"{name!r} is used by {header}, which the namespace tilewright::{name} would hide; choose "
            f"another name, such as '{name}_rows'"
        )


def _advice(name: str) -> str:
    """The end of a message: a legal name that is like this one, if there is any."""
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
    legal = "_".join(words)[:MOST_CHARACTERS].rstrip("_")
    return f"; did you mean {legal!r}?" if name.isascii() and _NAME.fullmatch(legal) else ""


def _namesake(name: str) -> str:
    """The header of tilewright, or the folder of headers, that has a name already; "" if the name is free."""
    include = paths.include_dir() / "tilewright"
    if (include / name).exists():
        return f"the folder include/tilewright/{name}"
    for header in sorted([*include.glob("*.h"), *include.glob("*.hpp")]):
        code = re.sub(r"//.*", "", header.read_text(encoding="utf-8"))
        if re.search(rf"\b{name}\b", code):
            return f"tilewright/{header.name}"
    return ""


def files(name: str) -> dict[str, str]:
    """The texts of the family's files, by their paths in the project."""
    return new_files.rendered(TEMPLATES, {"name": name, "camel": camel(name)}, {"dot_": ".", "NAME": name})


def write(name: str, project: Path, *, dry_run: bool = False) -> new_files.Outcome:
    """Writes the family's files below a project's folder, or only says which they are.

    Raises UsageError, and writes nothing, if one of them is there; a project's own pyproject.toml and
    .gitignore are kept.
    """
    instead = "--into names another folder"
    return new_files.write(files(name), project, may_stay=_SHARED, instead=instead, dry_run=dry_run)
