"""What a family declares: the C struct and its header, public ops and their docstrings, rows and words."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

from tilewright.base import paths
from tilewright.calls import stand_ins
from tilewright.compile.toolchain import find_host_toolchain
from tilewright.contract.cases import FamilyCalls, ops_of
from tilewright.declarations import catalog
from tilewright.declarations.arguments import struct
from tilewright.declarations.declaration import Interface
from tilewright.declarations.headers import APPENDED, appended_header, arguments_header, path_of
from tilewright.selection.families import family_of


def interfaces(family: str) -> list[Interface]:
    """The interfaces of a family's ops, each once."""
    return list(dict.fromkeys(op.interface for op in ops_of(family).values()))


def test_every_op_is_called_by_these_tests(family_calls: FamilyCalls) -> None:
    assert set(family_calls.calls) == set(ops_of(family_calls.family)) != set()


def test_the_header_of_the_arguments_is_as_declared(family: str) -> None:
    stale = "`python -m tilewright.declarations.headers` writes the header anew"
    assert arguments_header(interfaces(family)[0]) == path_of(family).read_text(encoding="utf-8"), stale
    if interfaces(family)[0].appends:
        appended = path_of(family).with_name(APPENDED).read_text(encoding="utf-8")
        assert appended_header(interfaces(family)[0]) == appended, stale
    layouts = {tuple(map(str, struct(interface)._fields_[:-1])) for interface in interfaces(family)}
    assert len(layouts) == 1, "ops of one family fill different structs"


def test_a_compiler_lays_the_arguments_out_as_python_does(family: str, tmp_path: Path) -> None:
    interface = interfaces(family)[0]
    kind, args, header = struct(interface), f"tilewright_{family}_args", "args.h"
    fields: dict[str, Any] = {field[0]: field[1] for field in kind._fields_}
    appended = {member.field for member in interface.operands if member.appended}
    appended |= {code.name for code in interface.codes if code.appended}
    if appended:
        args, header = f"tilewright_{family}_appended_args", APPENDED
    facts = [f"sizeof({args}) == {ctypes.sizeof(kind)}"]
    base = "base." if appended else ""
    facts += [
        f"offsetof({args}, {name if name in appended else base + name}) == {getattr(kind, name).offset}"
        for name in fields
    ]
    facts += [
        f"offsetof({interface.tactic.name}, {name}) == {getattr(fields['tactic'], name).offset}"
        for name in interface.tactic.members
    ]
    lines = ["#include <cstddef>", f'#include "tilewright/{family}/{header}"']
    source = tmp_path / "layout.cc"
    source.write_text("\n".join([*lines, *(f"static_assert({fact});" for fact in facts)]) + "\n")
    includes = (f"-I{folder}" for folder in (paths.include_dir(), path_of(family).parents[2]))
    command = [*find_host_toolchain().host, "-std=c++17", "-fsyntax-only", *includes, str(source)]
    subprocess.run(command, check=True)


def test_ops_take_what_is_declared(family: str) -> None:
    """Tensors are operands, numbers are parameters, or constants of the op."""
    for op in ops_of(family).values():
        own = {parameter.name for parameter in op.parameters}
        assert {number.name for number in op.interface.numbers} <= own | set(op.constants), op.name
        assert set(op.tensors) <= set(op.interface.names), op.name
        declared = {operand.name for operand in op.interface.operands if operand.written}
        updated = {name for suffix in op.variants() for name in op.updates(suffix)}
        assert set(op.written) | updated == declared, op.name
        assert op.parameters[-1].kind == "tactic", op.name


def test_every_operand_is_an_argument_of_an_op(family: str) -> None:
    """Kernels get null for an operand that no op takes."""
    ops = ops_of(family).values()
    declared = {name: None for interface in interfaces(family) for name in interface.names}
    taken = {name for op in ops for name in op.tensors}
    assert [name for name in declared if name not in taken] == []


def _with_ops_like_it(name: str, docstrings: dict[str, str]) -> str:
    """An op's docstring, and those of ops that its first paragraph compares it with ("as `NAME` does")."""
    text = docstrings[name]
    names = re.findall(r"\b[Aa]s `(\w+)`", text.partition("\n\n")[0])
    return text + "".join(_with_ops_like_it(op, docstrings) for op in names if op in docstrings)


def test_docstrings_tell_of_every_argument(family: str) -> None:
    """Each op's own, or that of the op which it says it works as."""
    docstrings = {name: op.function.__doc__ or "" for name, op in ops_of(family).items()}
    for name, op in ops_of(family).items():
        text = _with_ops_like_it(name, docstrings)
        lacking = [
            parameter.name for parameter in op.parameters if not re.search(rf"\b{parameter.name}\b", text)
        ]
        assert not lacking, f"{name}: {', '.join(lacking)}"
        assert "Returns:" in text, name
        assert "Raises:" in text, name


def test_docstrings_tell_of_every_error_once(family: str) -> None:
    """The errors of every op are added to its own; help() says the same without torch."""
    for name, op in ops_of(family).items():
        text = op.function.__doc__ or ""
        for error in ("ArgumentError", "UnsupportedDeviceError", "NoKernelError", "NotBuiltError"):
            assert text.count(f"    {error}: ") == 1, (name, error)
        assert text.count("Raises:\n") == 1, name
        assert stand_ins.stand_in(f"{catalog.packages()[family]}.op", name).__doc__ == text


def test_selection_knows_what_words_make(family: str) -> None:
    words, of_family = catalog.words_of(family), family_of(family)
    problem = words.make(words.example, {})
    kind = problem.kind
    for name in of_family.decisive:
        assert hasattr(kind, name), name
    assert {*of_family.extents} == {extent.name for extent in words.extents}
    assert problem.bytes > 0
