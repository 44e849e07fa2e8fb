"""Which kernel sets are in force, and in which order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.base import paths, plugins, sets
from tilewright.base.sets import KernelSet
from tilewright.libraries.registry import Registry


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two packages of kernels, `zinc` and `acme`, and one of libraries alone, `built`; a plugin family."""
    homes = {name: tmp_path / "site" / name for name in ("acme", "built", "zinc")}
    for name, folder in (("zinc", "generated"), ("acme", "generated"), ("acme", "libraries"),
                         ("built", "libraries")):  # fmt: skip
        (homes[name] / folder).mkdir(parents=True)
    monkeypatch.setattr(plugins, "kernel_packages", lambda: homes)
    monkeypatch.setattr(plugins, "generated_folders", lambda: [("rows", tmp_path / "rows")])
    monkeypatch.delenv("TILEWRIGHT_GENERATED", raising=False)
    monkeypatch.delenv("TILEWRIGHT_LIBRARIES", raising=False)
    return tmp_path / "site"


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (None, ["acme", "zinc", "rows", "shipped"]),
        ("", ["acme", "zinc", "rows", "shipped"]),
        ("/a:/b", ["/a", "/b", "acme", "zinc", "rows", "shipped"]),
        ("zinc", ["zinc", "acme", "rows", "shipped"]),
        ("shipped:/a", ["shipped", "/a", "acme", "zinc", "rows"]),
        ("/a:only", ["/a"]),
        ("only:acme:/a:/a", ["acme", "/a"]),
        ("only", []),
    ],
)
def test_what_the_variable_names(
    installed: Path, monkeypatch: pytest.MonkeyPatch, value: str | None, names: list[str]
) -> None:
    if value is not None:
        monkeypatch.setenv("TILEWRIGHT_GENERATED", value)
    assert [kernel_set.name for kernel_set in sets.in_force()] == names


def test_a_project_stands_before_them(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [each.name for each in sets.beside(Path("/p"))] == ["/p", "acme", "zinc", "rows", "shipped"]
    ours = sets.beside(paths.shipped_generated_dir())
    assert [each.name for each in ours] == ["shipped", "acme", "zinc", "rows"]
    monkeypatch.setenv("TILEWRIGHT_GENERATED", "only")
    assert sets.beside(Path("/p")) == (KernelSet("/p", Path("/p")),)


def test_words_that_are_names_and_words_that_are_paths(installed: Path) -> None:
    assert sets.named_set("acme").generated == installed / "acme/generated"
    assert sets.named_set(installed / "acme/generated").name == "acme"
    assert sets.named_set("./acme") == KernelSet("./acme", Path("acme"))
    assert sets.named_set(Path("acme")).generated == Path("acme")
    words = ("acme", "shipped", "only", "./acme", "built", str(paths.shipped_generated_dir()))
    assert [word for word in words if sets.is_name(word)] == ["acme", "shipped", "only"]


def test_exactly_what_a_program_names(installed: Path) -> None:
    assert [each.name for each in sets.of("/a")] == ["/a"]
    assert [each.name for each in sets.of(["/a", "shipped", Path("/b")])] == ["/a", "shipped", "/b"]


def test_a_command_without_a_project(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sets.first_folder() == paths.shipped_generated_dir()
    for value, folder in (("/a:/b", Path("/a")), ("acme", installed / "acme/generated")):
        monkeypatch.setenv("TILEWRIGHT_GENERATED", value)
        assert sets.first_folder() == folder


def test_folders_of_libraries(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sets.library_folders() == (installed / "acme", installed / "built")
    monkeypatch.setenv("TILEWRIGHT_LIBRARIES", f"/x:{installed / 'built'}")
    assert sets.library_folders() == (Path("/x"), installed / "built", installed / "acme")


def test_packages_are_found_on_the_search_path(tmp_path: Path) -> None:
    """The earlier place on the path wins if two have one name."""
    for site, name in (("one", "acme"), ("two", "acme"), ("two", "zinc"), ("two", "zinc-1.0.dist-info")):
        (tmp_path / site / "tilewright_kernels" / name / "generated").mkdir(parents=True)
    code = "from tilewright.base import sets; print(*(each.generated for each in sets.in_force()[:2]))"
    search = os.pathsep.join([str(tmp_path / "one"), str(tmp_path / "two"), *filter(None, sys.path)])
    search += os.pathsep + str(paths.include_dir().parent)
    environment = {**os.environ, "PYTHONPATH": search, "TILEWRIGHT_GENERATED": ""}
    out = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout
    places = ("one/tilewright_kernels/acme/generated", "two/tilewright_kernels/zinc/generated")
    assert out.split() == [str(tmp_path / place) for place in places]


def test_a_folder_of_the_variable_that_holds_no_module_is_named(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An installed set that holds none yet is not: nobody named it."""
    clone = paths.shipped_generated_dir().parent
    monkeypatch.setenv("TILEWRIGHT_GENERATED", f"{tmp_path / 'nothing'}:{clone}")
    registry = Registry()
    with caplog.at_level("WARNING", logger="tilewright"):
        assert registry.tables
        assert registry.tables
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith(f"passing over a kernel set: {tmp_path / 'nothing'} is no folder")
    assert second.endswith(f"Did you mean {clone / 'generated'}?")
    caplog.clear()
    monkeypatch.setenv("TILEWRIGHT_GENERATED", str(paths.shipped_generated_dir()))
    with caplog.at_level("WARNING", logger="tilewright"):
        assert Registry().tables
    assert not caplog.records
