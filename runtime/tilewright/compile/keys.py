"""Content keys: two builds share an object exactly when everything that decides it is equal.

An object's key covers its source, the tilewright headers the source reaches, the CUTLASS tree if one of
these includes a header of it, the toolchain and the flags; no path and no time. What a compiler says it
included (the depfile) is checked against this afterwards, so that nothing unhashed gets in.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tilewright.base import plugins, reading
from tilewright.base.schema import Anything, Object, String, fields
from tilewright.errors import BuildError, UnreadableFileError

_NOTE = Object(fields(("signature", "digest"), String()), others=Anything())  # of a digest
KEY_FORMAT = 1  # raised when the meaning of a key or of an entry changes
_CUTLASS = rb'(?m)^[ \t]*#[ \t]*include[ \t]*[<"](?:cutlass|cute)/'
# An include in C++, the program of a source in Python, or a module that a program imports.
INCLUDE = (
    rb'(?m)^(?:(?:[ \t]*#[ \t]*include[ \t]*[<"]|PROGRAM = ")(tilewright/[^">]+)[">]'
    rb"|from tilewright_programs\.([\w.]+) import )"
)


def digest(*parts: str) -> str:
    """A key of 32 hexadecimal digits. Each part is measured, so no two lists of parts collide."""
    state = hashlib.sha256()
    for part in (str(KEY_FORMAT), *parts):
        data = part.encode()
        state.update(b"%d:" % len(data))
        state.update(data)
    return state.hexdigest()[:32]


def file_sha256(path: Path) -> str:
    state = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            state.update(block)
    return state.hexdigest()


class HeaderSet:
    """The tilewright headers a source reaches, found by following `#include "tilewright/..."`.

    Reaching by text, without evaluating `#if`, finds at least what a compiler reads. A family's binding
    header is then no part of its kernels' keys.
    """

    def __init__(self, include: Path) -> None:
        self._folders = (include, *plugins.folders("include"))
        # By name: sha256, names that it includes, and whether it includes a header of CUTLASS's.
        self._files: dict[str, tuple[str, frozenset[str], bool]] = {}

    def reached(self, source: bytes) -> dict[str, str]:
        """sha256 by name ("tilewright/abi.h") of each header that `source` reaches, sorted."""
        names: set[str] = set()
        pending = _included(source)
        while pending:
            name = pending.pop()
            if name not in names:
                names.add(name)
                pending |= self._file(name)[1]
        return {name: self._file(name)[0] for name in sorted(names)}

    def cutlass(self, source: bytes) -> bool:
        """Whether a source includes CUTLASS's headers, or one of tilewright's that it reaches does."""
        return bool(re.search(_CUTLASS, source)) or any(self._file(name)[2] for name in self.reached(source))

    def changed(self, reached: Mapping[str, str]) -> list[str]:
        """The names of headers that were reached once and are not as they were, or are gone.

        If all are as they were, a source that is the same reaches the same headers now.
        """
        return [name for name, sha256 in reached.items() if not self._is(name, sha256)]

    def _is(self, name: str, sha256: str) -> bool:
        try:
            return self._file(name)[0] == sha256
        except BuildError:  # it is gone
            return False

    @staticmethod
    def digest(reached: Mapping[str, str]) -> str:
        return digest(*(f"{name} {sha256}" for name, sha256 in reached.items()))

    def path(self, name: str) -> Path:
        """The path of a header: in tilewright's folder, or in that of an out-of-tree family."""
        places = (folder / name for folder in self._folders if (folder / name).exists())
        home = plugins.families().get(name.split("/")[1])
        return next(places, (self._folders[0] if home is None else home / "include") / name)

    def _file(self, name: str) -> tuple[str, frozenset[str], bool]:
        if name not in self._files:
            path = self.path(name)
            try:
                data = reading.contents(path)
            except FileNotFoundError:
                raise BuildError(f"{path}: No such file or directory", hint=_missing(name)) from None
            except UnreadableFileError as error:
                raise BuildError(error.message) from None
            sha256, cutlass = hashlib.sha256(data).hexdigest(), re.search(_CUTLASS, data) is not None
            self._files[name] = sha256, frozenset(_included(data)), cutlass
        return self._files[name]


def header_name(match: re.Match[bytes]) -> str:
    """The name of a header, or of a module in Python, that a match of `INCLUDE` names."""
    if match[1] is not None:
        return match[1].decode(errors="backslashreplace")
    return f"tilewright/{match[2].decode().replace('.', '/')}.py"


def _missing(name: str) -> str | None:
    """The hint for a missing header ("tilewright/FAMILY/args.h") of an out-of-tree family, else None."""
    family = name.split("/")[1]
    if family not in plugins.families():
        return None
    if name.endswith("/args.h"):
        return f"`python -m tilewright.declarations.headers` writes it from the declaration of {family}."
    return f"It is a header of {family}, whose folder is {plugins.families()[family] / 'include'}."


def _included(text: bytes) -> set[str]:
    return {header_name(match) for match in re.finditer(INCLUDE, text)}


def files_digest(files: Mapping[str, Path], memory: Path | None, title: str, *, keep: bool = True) -> str:
    """A digest of the content of files, by the names that `files` gives them.

    Hashing CUTLASS's 27 MB takes 0.1 s or, cold, far longer; so the answer is remembered in `memory` (a
    folder), under `title`, with the files' sizes, times and inodes, and computed again when one differs.
    Without `keep` nothing is written there.
    """
    ordered = sorted(files.items())
    signature = digest(title, *(f"{name} {path} {_stamp(path)}" for name, path in ordered))
    remembered = memory / f"{digest(title)}.json" if memory else None
    if remembered is not None:
        with suppress(OSError, UnreadableFileError):
            note = reading.load_json(remembered, _NOTE)
            if note["signature"] == signature:
                return str(note["digest"])
    result = digest(*(f"{name} {file_sha256(path)}" for name, path in ordered))
    if remembered is not None and keep:
        with suppress(OSError):  # a note that cannot be kept costs time, nothing else
            remembered.parent.mkdir(parents=True, exist_ok=True)
            draft = remembered.with_name(f"{remembered.name}.{os.getpid()}")
            try:
                draft.write_text(json.dumps({"of": title, "signature": signature, "digest": result}))
                draft.replace(remembered)
            finally:
                draft.unlink(missing_ok=True)
    return result


def _stamp(path: Path) -> str:
    stat = os.stat(path)  # noqa: PTH116 (pathlib is slow for 2,000 paths)
    # A copy may keep the time of modification, but no program can set the inode's change time.
    return f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}"
