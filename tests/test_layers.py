"""What may know what: no circle of imports, and no family's name outside of what is the family's."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from benchmarks.lib.import_graph import imports, modules

from tilewright.declarations import catalog

ROOT = Path(__file__).parents[1]


def circles(graph: Mapping[str, set[str]]) -> Iterator[tuple[str, ...]]:
    """Circles of a graph, each from its first module by name; when they are cut there, there is none."""
    left = {name: set(targets) for name, targets in graph.items()}
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            *circle, _ = error.args[1]
            circle.reverse()  # so that each imports the next
            first = circle.index(min(circle))
            circle = circle[first:] + circle[:first]
            yield tuple(circle)
            left[circle[0]].discard(circle[1 % len(circle)])
        else:
            return


def test_there_is_no_circle_of_imports() -> None:
    files = modules()
    graph = {name: imports(name, path.read_text(encoding="utf-8"), files) for name, path in files.items()}
    assert sum(map(len, graph.values())) > 1000, "imports are not seen"
    faults = set(circles(graph))
    assert not faults, "\n".join(" -> ".join((*circle, circle[0])) for circle in sorted(faults))


# Packages of the runtime, from the lowest: each imports only what stands before it. Modules that callers
# import by name (`tilewright.errors`) count as packages of one file. "" is the facade, `tilewright` itself.
ROOMS = (
    *("errors", "version", "base", "architectures", "blockwise_scales", "scale_factors", "row_shuffle"),
    "weight_codes",
    "weight_formats",
    "weight_layout",
    "weights",
    *("formats", "configurations", "declarations", "models", "compile", "libraries", "selection", "bundle"),
    *("context", "calls"),
    *("tools", "reference", "families", "contractions", "torch_ops", "", "compat", "adapters", "contract"),
)
TOOLS = (
    "reference",
    "cuda_graph",
    "timing",
    "measuring",
    "trying",
    "filters",
    "listing",
    "explaining",
    "sharding",
    "tuning",
    "benchmarking",
    "bundling",
    "choices",
    "self_test",
    "doctor",
)


def arrows(package: str, depth: int) -> Iterator[tuple[str, str, str]]:
    """Imports between the rooms of a package (`depth`: its dots, and 1): both rooms, and the import."""
    files = modules()
    for name, path in files.items():
        if f"{name}.".startswith(f"{package}."):
            for target in imports(name, path.read_text(encoding="utf-8"), files, by_name=False):
                rooms = [".".join(imported.split(".")[depth : depth + 1]) for imported in (name, target)]
                if f"{target}.".startswith(f"{package}.") and rooms[0] != rooms[1]:
                    yield rooms[0], rooms[1], f"{name} imports {target}"


@pytest.mark.parametrize(("package", "order"), [("tilewright", ROOMS), ("tilewright.tools", TOOLS)])
def test_packages_import_one_way(package: str, order: tuple[str, ...]) -> None:
    """Function-level imports and those under TYPE_CHECKING count, too. What the catalog finds by a family's
    name does not: no text says which module that is."""
    rank = {room: number for number, room in enumerate(order)}
    seen = list(arrows(package, package.count(".") + 1))
    assert len(seen) > 10, "imports are not seen"
    assert not {room for arrow in seen for room in arrow[:2]} - rank.keys(), "a package without a place"
    assert not sorted(text for room, target, text in seen if rank[room] <= rank[target])


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        (r"tilewright(\.|$)", "tilewright_generator"),
        (r"tilewright_generator\.(?!cli|__main__)", r"tilewright_generator\.cli"),
        (r"tilewright\.families\.\w+\.(?!measuring)", r"tilewright\.(tools|reference)\b"),
    ],
)
def test_layers_know_nothing_of_those_above(lower: str, upper: str) -> None:
    files = modules()
    seen = {name: imports(name, files[name].read_text(encoding="utf-8"), files) for name in files}
    below = {name for name in files if re.match(lower, name)}
    assert below
    assert not [
        (name, imported) for name in sorted(below) for imported in seen[name] if re.match(upper, imported)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "import p.b",
        "from p import b",
        "from p.b import x",
        "def f():\n    from p.b import x",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.b import x",
        "import_module(f'p.{name}')",
        "importlib.import_module('p.b')",
    ],
)
def test_a_circle_is_seen_wherever_the_import_stands(text: str) -> None:
    files = dict.fromkeys(("p.a", "p.b", "p.d"))
    assert imports("p.a", text, files) >= {"p.b"}
    graph = {"p.a": imports("p.a", text, files), "p.b": {"p.c"}, "p.c": {"p.a"}}
    assert list(circles(graph)) == [("p.a", "p.b", "p.c")]
    assert not list(circles(graph | {"p.c": set()}))


def test_a_family_is_named_in_its_own_folders_alone() -> None:
    """In tracked files of the generator and the runtime."""
    faults = []
    for name in catalog.names():
        grep = ["git", "-C", str(ROOT), "grep", "-nIw", "-e", name, "--", "generator", "runtime"]
        lines = subprocess.run(grep, capture_output=True, text=True, check=False).stdout.splitlines()
        assert lines, "git finds nothing"
        faults += [line for line in lines if not OWN.match(line) and names_it(line, name)]
    assert not faults, "\n".join(faults)


# Where a family's name may stand besides its folders.
OWN = re.compile(
    rf"runtime/tilewright/families/({'|'.join(catalog.names())})/"
    r"|runtime/include/tilewright/"  # device code; CUTLASS has a namespace of such a name, too
    r"|runtime/tilewright/__init__\.py:"  # the public ops
    r"|runtime/tilewright/adapters/"  # which ops another framework calls
    r"|runtime/tilewright/models/"  # which ops compute the layers of a model
    r"|runtime/tilewright/contractions/"  # a function that calls the ops of two families
    r"|runtime/tilewright/(tools/reference/|reference\.py)"  # one of its functions has such a name
)


def names_it(line: str, family: str) -> bool:
    """Whether a line names a family otherwise than by its public op: `tilewright.gemm`."""
    return re.search(rf"(?<!\btilewright\.)\b{family}\b", line) is not None
