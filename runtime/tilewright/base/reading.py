"""Reads files of data: tables, tuned files, reports, records, lists of sizes, specs.

Whoever wrote a file, reading it ends soon and says what is wrong with it: only regular files are read (a pipe
would wait for ever), of a bounded size and depth, and a schema (`schema`) has checked all values
before anything uses them.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tilewright.base.mismatch import Mismatch
from tilewright.errors import UnreadableFileError

if TYPE_CHECKING:
    from tilewright.base.schema import Schema

MOST_BYTES = 128 << 20  # 100,000 kernels are a table of 70 MB
MOST_ITEMS = 5_000_000  # of JSON that is parsed whole; Python makes 70 bytes of an empty list
MOST_YAML_BYTES = 8 << 20
MOST_YAML_EVENTS = 500_000  # of a list of sizes; PyYAML makes 1 KB of each, and takes 10 us
MOST_DEPTH = 32  # of YAML; of JSON, what a schema takes
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def contents(path: Path | str, most: int = MOST_BYTES) -> bytes:
    """The bytes of a regular file, or of one that a link leads to.

    Raises FileNotFoundError where there is none, UnreadableFileError where something else stands there, it
    has more than `most` bytes, or may not be read.
    """
    try:
        # Without O_NONBLOCK, opening a pipe waits for somebody to write to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
                raise UnreadableFileError(path, f"{kind}, no file")
            return _read(descriptor, path, status.st_size, most)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnreadableFileError(path, error.strerror or str(error)) from None
    except ValueError:  # a null character
        raise UnreadableFileError(repr(str(path)), "no path") from None


def text(path: Path, most: int = MOST_BYTES) -> str:
    """As `contents`; UnreadableFileError also where they are not UTF-8."""
    return _decoded(path, contents(path, most))


def load_json(path: Path, schema: Schema) -> Any:
    """The content of a JSON file that the schema takes.

    Raises FileNotFoundError where there is none, UnreadableFileError, which names the place in the file,
    where it is something else.
    """
    return parse_json(path, contents(path), schema)


def parse_json(path: Path, data: bytes, schema: Schema) -> Any:
    """As `load_json`, of what was read of the file."""
    found = loads(path, _decoded(path, data))
    check(path, found, schema)
    return found


def loads(path: Path | str, text: str) -> Any:
    """JSON of a file, or of a part of one, that no schema has seen. Raises UnreadableFileError."""
    if sum(map(text.count, ",[{")) > MOST_ITEMS:
        raise UnreadableFileError(path, f"not JSON of ours: more than {MOST_ITEMS:,} values")
    try:
        return _JSON.decode(text)
    except json.JSONDecodeError as error:
        raise UnreadableFileError(
            path, f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}"
        ) from None
    except RecursionError:
        raise UnreadableFileError(path, "not JSON of ours: it is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise UnreadableFileError(path, f"not JSON of ours: {error}") from None


def check(path: Path | str, value: Any, schema: Schema) -> None:
    """Raises UnreadableFileError where the schema does not take what the file holds."""
    try:
        schema.check(value)
    except Mismatch as mismatch:
        raise UnreadableFileError(path, str(mismatch)) from None


def load_yaml(path: Path) -> Any:
    """The values of a YAML file, as YAML's safe types. Tags are refused, and aliases, which can stand for far
    more than is written. Raises as `load_json`."""
    import yaml  # noqa: PLC0415 (40 ms, and most commands read none)

    text = _decoded(path, contents(path, MOST_YAML_BYTES))
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for number, event in enumerate(yaml.parse(text, Loader=loader)):
            reason = ""
            if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None):
                reason = "an alias or a tag, which it may not hold"
            elif number > MOST_YAML_EVENTS:
                reason = f"more than {MOST_YAML_EVENTS:,} values and brackets"
            elif isinstance(event, yaml.CollectionStartEvent):
                # libyaml's composer calls itself for each level, and ends the process at some 30,000.
                depth += 1
                reason = f"nested more than {MOST_DEPTH} deep" if depth > MOST_DEPTH else ""
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if reason:
                raise UnreadableFileError(path, f"{_place(event.start_mark)}{reason}")
        return yaml.load(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        raise UnreadableFileError(path, f"{_place(error.problem_mark)}not YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # a date, a number of thousands of digits
        raise UnreadableFileError(path, f"not YAML of ours: {error}") from None


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""


def _read(descriptor: int, path: Path | str, size: int, most: int) -> bytes:
    """As many bytes as the file says that it has. Files of /proc say 0, and some of them never end."""
    if size > most:
        raise UnreadableFileError(path, f"more than {most} bytes")
    # All of it, as a rule: nothing is put together then. Some files of /proc give nothing less than a page.
    parts = [os.read(descriptor, max(size + 1, 4096))]
    length = len(parts[0])
    while length <= size and (part := os.read(descriptor, size + 1 - length)):
        parts.append(part)
        length += len(part)
    if length > size:
        raise UnreadableFileError(path, "it holds more than its size says, as files of /proc do")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decoded(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableFileError(path, f"byte {error.start}: not UTF-8") from None


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


_JSON = json.JSONDecoder(parse_constant=_no_number)  # `json.loads` would make one for each row of a table
