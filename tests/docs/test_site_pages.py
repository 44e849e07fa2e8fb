"""What the pages of the site and its navigation name is there; no mkdocs is needed to say so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {"api/ops.md", "kernels.md"}  # by hooks.py


def identifiers() -> Iterator[tuple[str, str]]:
    """Each page of the reference, with what it documents."""
    for page in sorted((ROOT / "docs/site").rglob("*.md")):
        names = re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        yield from ((page.name, name) for name in names)


def is_there(name: str) -> bool:
    """Whether it is a module, or is defined in one."""
    module, parts = ROOT / "runtime", name.split(".")
    while parts and (module / parts[0]).is_dir():
        module /= parts.pop(0)
    file = module / f"{parts.pop(0)}.py" if parts else module / "__init__.py"
    if not file.is_file():
        return False
    body = ast.parse(file.read_text(encoding="utf-8")).body
    defined = {node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    return not parts or (len(parts) == 1 and parts[0] in defined)


@pytest.mark.parametrize(("page", "name"), list(identifiers()))
def test_what_the_reference_names_is_there(page: str, name: str) -> None:
    assert is_there(name), f"docs/site/api/{page}: {name} has moved"


def test_what_has_moved_is_seen() -> None:
    assert len(list(identifiers())) > 15
    assert is_there("tilewright.context.Context")
    assert not is_there("tilewright.context.Contexts")
    assert not is_there("tilewright.contexts")
    assert not is_there("tilewright.context.Context.plans")


def test_every_page_is_in_the_navigation_and_in_the_readme() -> None:
    readme, nav = (
        set(re.findall(r"\bdocs/\w+\.md", (ROOT / name).read_text(encoding="utf-8")))
        for name in ("README.md", "mkdocs.yml")
    )
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert readme == nav == pages


def test_pages_of_the_navigation_are_there() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = re.findall(r"[\w/]+\.md", nav)
    assert len(pages) > 25
    folders = (ROOT, ROOT / "docs/site")
    missing = [page for page in pages if not any((folder / page).is_file() for folder in folders)]
    assert not set(missing) - GENERATED
