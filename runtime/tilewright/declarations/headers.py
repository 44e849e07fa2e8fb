"""The C header of a family's argument struct, written from its declaration."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import wrap

from tilewright.base import paths, plugins, writing
from tilewright.declarations import catalog
from tilewright.declarations.arguments import members
from tilewright.declarations.codes import Codes
from tilewright.declarations.declaration import Interface, Operand, TacticStruct

COMMAND = "python -m tilewright.declarations.headers"
APPENDED = "appended_args.h"  # the header of the struct with its appended members

_WIDTH = 120
_POINTED = {"f32": "float", "s32": "int32_t"}  # C types of elements; void for other and for variable types


def arguments_header(interface: Interface) -> str:
    """`tilewright/<family>/args.h`."""
    return "\n".join(_lines(interface)) + "\n"


def appended_header(interface: Interface) -> str:
    """`tilewright/<family>/appended_args.h`: the struct with its appended members."""
    return "\n".join(_appended_lines(interface)) + "\n"


def _appended_lines(interface: Interface) -> Iterator[str]:
    family = interface.family
    guard = f"TILEWRIGHT_{family.upper()}_APPENDED_ARGS_H_"
    yield f"// Written by `{COMMAND}` from the family's declaration. DO NOT EDIT."
    yield "//"
    for line in interface.appended_text.strip().splitlines():
        yield f"// {line}".rstrip()
    yield from (f"#ifndef {guard}", f"#define {guard}", "", f'#include "tilewright/{family}/args.h"', "")
    yield from ("#ifdef __cplusplus", 'extern "C" {', "#endif", "")
    yield f"typedef struct tilewright_{family}_appended_args {{"
    yield f"  tilewright_{family}_args base;"
    yield ""
    for operand in interface.operands:
        if operand.appended:
            yield from _commented(f"{_pointer(operand)} {operand.field};", operand.what)
    for code in interface.codes:
        if code.appended:
            yield from _commented(f"int32_t {code.name};", code.text)
    yield f"}} tilewright_{family}_appended_args;"
    yield from ("", "#ifdef __cplusplus", '}  // extern "C"', "#endif", "", f"#endif  // {guard}")


def _lines(interface: Interface) -> Iterator[str]:
    family = interface.family
    guard = f"TILEWRIGHT_{family.upper()}_ARGS_H_"
    yield f"// Written by `{COMMAND}` from the family's declaration. DO NOT EDIT."
    yield "//"
    for line in interface.text.strip().splitlines():
        yield f"// {line}".rstrip()
    yield from (f"#ifndef {guard}", f"#define {guard}", "", "#include <stdint.h>", "")
    if interface.tactic.header:
        yield from (f'#include "{interface.tactic.header}"', "")
    yield from ("#ifdef __cplusplus", 'extern "C" {', "#endif", "")
    for enum in interface.enums:
        yield from (*definition(enum), "")
    if not interface.tactic.header:
        yield from (*_tactic(interface.tactic), "")
    yield f"typedef struct tilewright_{family}_args {{"
    yield f"  int32_t {', '.join(interface.extents)};"
    yield ""
    for operand in interface.operands:
        if not operand.appended:
            yield from _commented(f"{_pointer(operand)} {operand.field};", operand.what)
    yield ""
    yield from _comment(interface.strides_text)
    yield from _strides(interface)
    yield ""
    for number in interface.numbers:
        yield from _commented(f"float {number.field};", number.what)
    for code in interface.codes:
        if not code.appended:
            yield from _commented(f"int32_t {code.name};", code.text)
    yield ""
    yield f"  {interface.tactic.name} tactic;"
    yield f"}} tilewright_{family}_args;"
    yield from ("", "#ifdef __cplusplus", '}  // extern "C"', "#endif", "", f"#endif  // {guard}")


def _tactic(tactic: TacticStruct) -> Iterator[str]:
    """The lines of a tactic's struct, for a family that does not share one."""
    yield from (f"// {line}" for line in wrap(tactic.text, _WIDTH - 3))
    yield f"typedef struct {tactic.name} {{"
    yield f"  int32_t {', '.join(tactic.members)};"
    yield f"}} {tactic.name};"


def _strides(interface: Interface) -> Iterator[str]:
    """The members for the strides of rows, then for those of matrices in a batch."""
    integers = [name for name, c_type in members(interface) if c_type is ctypes.c_int64]
    for prefix in ("ld_", "batch_stride_"):
        if names := [name for name in integers if name.startswith(prefix)]:
            text = f"int64_t {', '.join(names)};"
            yield from wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="      ")


def definition(codes: Codes) -> Iterator[str]:
    """The lines of an enum's definition."""
    yield from _slashed(codes.text)
    yield f"typedef enum {codes.name} {{"
    runs: list[list[str]] = []  # words whose notes begin in one column
    for word in codes.words:
        if not runs or word in codes.above or word not in codes.notes:
            runs.append([])
        runs[-1].append(word)
    for run in runs:
        if above := codes.above.get(run[0]):
            yield from [""] * (run is not runs[0])
            yield from (f"  {line}" for line in _slashed(above))
        members = {word: f"  {codes.prefix}_{word.upper()} = {codes[word]}," for word in run}
        width = max((len(members[word]) for word in run if word in codes.notes), default=0)
        for word, member in members.items():
            note = codes.notes.get(word)
            yield f"{member.ljust(width)}  // {note}" if note else member
    yield f"}} {codes.name};"


def _slashed(text: str) -> list[str]:
    return [f"// {line}" for line in text.strip().splitlines()]


def _pointer(operand: Operand) -> str:
    """The C type of an operand's address in the struct."""
    pointed = _POINTED.get(operand.type, "void") if isinstance(operand.type, str) else "void"
    return operand.pointer or f"{'' if operand.written else 'const '}{pointed}*"


def _comment(text: str) -> Iterator[str]:
    for line in wrap(text, _WIDTH - 5):
        yield f"  // {line}"


def _commented(member: str, what: str) -> Iterator[str]:
    """A member below its comment."""
    yield from _comment(what)
    yield f"  {member}"


def path_of(family: str) -> Path:
    """The path of the header of a family's arguments."""
    home = plugins.families().get(family)
    include = paths.include_dir() if home is None else home / "include"
    return include / "tilewright" / family / "args.h"


def stale(families: Iterable[str]) -> dict[Path, str]:
    """The headers of these families that are not what the declarations say, with the texts that they should
    have."""
    texts: dict[Path, str] = {}
    for name in families:
        interface, path = catalog.family_module(name, "interface").INTERFACE, path_of(name)
        texts[path] = arguments_header(interface)
        if interface.appends:
            texts[path.with_name(APPENDED)] = appended_header(interface)
    return {
        path: text
        for path, text in texts.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }


def main() -> None:
    """Writes the headers of all families; with --check, only exits with 1 if a header is stale."""
    headers = stale(catalog.names())
    if headers and "--check" in sys.argv:
        raise SystemExit(f"not as declared: {', '.join(map(str, headers))}")
    for path, text in headers.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        writing.write(path, text)
        print(f"wrote {path}")
    if not headers:
        print("nothing to do: all headers are as declared")


if __name__ == "__main__":
    main()
