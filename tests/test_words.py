"""Docstrings begin with a word that stands alone, and variables are called by nouns of the field."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "runtime": ROOT / "runtime/tilewright",
    "generator": ROOT / "generator/tilewright_generator",
    "benchmarks": ROOT / "benchmarks",
    "examples": ROOT / "examples",
    "docs": ROOT / "docs",
    **{f"tests/{name}": ROOT / "tests" / name for name in ("common", "docs", "mutants")},
}

# Names that say nothing of what they hold. In a comprehension, which is read at once, only `one` is banned.
BANNED = frozenset(
    {"one", "found", "made", "given", "known", "told", "there", "said", "wanted", "each", "other", "others"}
)
# Findings that stay, as "FILE: FINDING", each with its reason.
EXCEPTIONS: dict[str, str] = {}
# Findings in packages that are not rewritten yet. A number may only fall: lower it with the findings, and
# remove the package with the last of them. No package may be added.
BOUNDS: dict[str, int] = {}


def findings(source: str) -> Iterator[str]:
    """The faults of a module: riddles of docstrings, and assignments to banned names.

    Fields in a class's body and parameters are interfaces, and are not asked about.
    """
    tree = ast.parse(source)
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring is not None and docstring.split()[0] == "Of":
                yield f"a docstring begins with 'Of': {docstring.splitlines()[0]}"
        if isinstance(node, ast.ClassDef):
            skipped.update(target for field in node.body for target in _targets(field))
        elif isinstance(node, ast.comprehension):
            skipped.update(name for name in _names(node.target) if name.id != "one")
        elif _is_banned(node) and node not in skipped:
            yield f"`{ast.unparse(node)}` is assigned"


def _is_banned(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in BANNED


def _targets(field: ast.stmt) -> list[ast.expr]:
    if isinstance(field, ast.Assign):
        return field.targets
    return [field.target] if isinstance(field, ast.AnnAssign) else []


def _names(target: ast.expr) -> Iterator[ast.Name]:
    return (node for node in ast.walk(target) if isinstance(node, ast.Name))


def package_of(path: Path) -> str:
    """The name by which BOUNDS knows a file's package, such as `runtime/compile` or `generator`."""
    for name, folder in FOLDERS.items():
        if path.is_relative_to(folder):
            place = path.relative_to(folder).parts
            return f"{name}/{place[0].removesuffix('.py')}" if name == "runtime" else name
    raise AssertionError(f"{path} is in no package of the project")


def all_findings() -> dict[str, list[str]]:
    """The faults of every package, each with its file; EXCEPTIONS are left out."""
    faults: dict[str, list[str]] = {}
    for folder in FOLDERS.values():
        for path in sorted(folder.rglob("*.py")):
            texts = faults.setdefault(package_of(path), [])
            for finding in findings(path.read_text(encoding="utf-8")):
                text = f"{path.relative_to(ROOT)}: {finding}"
                if text not in EXCEPTIONS:
                    texts.append(text)
    return faults


def test_packages_use_plain_words() -> None:
    faults = all_findings()
    messages = []
    for package, texts in sorted(faults.items()):
        bound = BOUNDS.get(package, 0)
        if len(texts) > bound:
            shown = "\n    ".join(f"{text} ({count})" for text, count in Counter(texts).items())
            messages.append(f"{package}: {len(texts)} findings, {bound} are allowed:\n    {shown}")
        elif len(texts) < bound:
            messages.append(f"{package}: {len(texts)} findings; lower its bound of {bound}")
    assert not messages, "\n".join(messages)


def test_docstrings_of_tests_begin_with_a_word_that_stands_alone() -> None:
    riddles = [
        f"{path.relative_to(ROOT)}: {finding}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for finding in findings(path.read_text(encoding="utf-8"))
        if finding.startswith("a docstring begins")
    ]
    assert not riddles, "\n".join(riddles)


def test_bounds_name_packages() -> None:
    assert BOUNDS.keys() <= all_findings().keys()
    assert all(BOUNDS.values())  # a package without findings has no bound


@pytest.mark.parametrize(
    "source",
    [
        '"""Of a tile."""',
        'def f():\n    """Of\n    a tile."""',
        "class Tile:\n    def f(self):\n        one = 1",
        "for found in []: ...",
        "for index, (found, tile) in []: ...",
        "if (made := 1): ...",
        "with open(path) as given: ...",
        "def f():\n    known: int = 1",
        "tile, *others = [1, 2]",
        "others += [1]",
        "[one for one in tiles]",
        "{one.name: tile for tile, one in tiles}",
    ],
)
def test_a_riddle_is_found(source: str) -> None:
    assert len(list(findings(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        '"""Offers a tile."""',
        "class Tile:\n    wanted: int\n    known = 1",
        "def f(other): return other",
        "[each for each in tiles]",
        "tile.found = 1",
        "print(one)",
    ],
)
def test_plain_words_are_no_riddle(source: str) -> None:
    assert not list(findings(source))
