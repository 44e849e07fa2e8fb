"""What a family declares: the C struct and its header, public ops and their docstrings, rows and words."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import pytest
from contract_cases import MODULES, ops_of

from tilewright.base import paths
from tilewright.calls import stand_ins
from tilewright.declarations import catalog
from tilewright.declarations.arguments import struct
from tilewright.declarations.declaration import Interface
from tilewright.declarations.headers import arguments_header, path_of
from tilewright.selection.families import family_of

FAMILIES = pytest.mark.parametrize("family", catalog.names())


def interfaces(family: str) -> list[Interface]:
    """Of a family's ops, each once."""
    return list(dict.fromkeys(op.interface for op in ops_of(family).values()))


@FAMILIES
def test_every_op_is_called_by_these_tests(family: str) -> None:
    assert family in MODULES, f"tests/runtime/contract/{family}_calls.py is wanted"
    assert set(MODULES[family].CALLS) == set(ops_of(family)) != set()


@FAMILIES
def test_the_header_of_the_arguments_is_as_declared(family: str) -> None:
    """Where this fails: `python -m tilewright.declarations.headers`."""
    assert arguments_header(interfaces(family)[0]) == path_of(family).read_text(encoding="utf-8")
    layouts = {tuple((name, str(of)) for name, of in struct(one)._fields_[:-1]) for one in interfaces(family)}
    assert len(layouts) == 1, "ops of one family fill different structs"


@FAMILIES
def test_a_compiler_lays_the_arguments_out_as_python_does(family: str, tmp_path: Path) -> None:
    interface = interfaces(family)[0]
    kind, args = struct(interface), f"tilewright_{family}_args"
    tactic = dict(kind._fields_)["tactic"]  # type: ignore[misc]
    told = [f"sizeof({args}) == {ctypes.sizeof(kind)}"]
    told += [f"offsetof({args}, {name}) == {getattr(kind, name).offset}" for name, _ in kind._fields_]
    told += [
        f"offsetof({interface.tactic.name}, {name}) == {getattr(tactic, name).offset}"
        for name in interface.tactic.members
    ]
    lines = ["#include <cstddef>", f'#include "tilewright/{family}/args.h"']
    source = tmp_path / "layout.cc"
    source.write_text("\n".join([*lines, *(f"static_assert({one});" for one in told)]) + "\n")
    includes = (f"-I{folder}" for folder in (paths.include_dir(), path_of(family).parents[2]))
    command = ["g++", "-std=c++17", "-fsyntax-only", *includes, str(source)]
    subprocess.run(command, check=True)


@FAMILIES
def test_ops_take_what_is_declared(family: str) -> None:
    """Tensors are operands, numbers are parameters, or constants of the op."""
    for op in ops_of(family).values():
        own = {one.name for one in op.parameters}
        assert {number.name for number in op.interface.numbers} <= own | set(op.constants), op.name
        assert set(op.tensors) <= set(op.interface.names), op.name
        declared = {one.name for one in op.interface.operands if one.written}
        updated = {name for suffix in op.variants() for name in op.updates(suffix)}
        assert set(op.written) | updated == declared, op.name
        assert op.parameters[-1].kind == "tactic", op.name


@FAMILIES
def test_docstrings_tell_of_every_argument(family: str) -> None:
    """Each op's own, or that of the op which it says it is like."""
    docstrings = {name: op.function.__doc__ or "" for name, op in ops_of(family).items()}
    for name, op in ops_of(family).items():
        told = docstrings[name]
        while like := re.match(r"As `(\w+)`", told):
            told = docstrings[like[1]] + told.replace(like[0], "")
        lacking = [one.name for one in op.parameters if not re.search(rf"\b{one.name}\b", told)]
        assert not lacking, f"{name}: {', '.join(lacking)}"
        assert "Returns:" in told, name
        assert "Raises:" in told, name


@FAMILIES
def test_docstrings_tell_of_every_error_once(family: str) -> None:
    """Those that every op raises are added to its own; without torch help() says the same."""
    for name, op in ops_of(family).items():
        told = op.function.__doc__ or ""
        for error in ("ArgumentError", "UnsupportedDeviceError", "NoKernelError", "NotBuiltError"):
            assert told.count(f"    {error}: ") == 1, (name, error)
        assert told.count("Raises:\n") == 1, name
        assert stand_ins.stand_in(f"{catalog.packages()[family]}.op", name).__doc__ == told


@FAMILIES
def test_selection_knows_what_words_make(family: str) -> None:
    words, of_family = catalog.words_of(family), family_of(family)
    problem = words.make(words.example, {})
    kind = problem.kind
    for name in of_family.decisive:
        assert hasattr(kind, name), name
    assert {*of_family.extents} == {one.name for one in words.extents}
    assert problem.bytes > 0
