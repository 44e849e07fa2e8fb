"""Reads data files: tables, tuned files, reports, records, lists of sizes, specs.

Reading any file ends soon, and names the file's faults. Only regular files are read, because a pipe would
wait for ever; their size and depth are bounded; and a schema (`schema`) checks all values before they are
used.
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

MOST_BYTES = 128 << 20  # a table of 100,000 kernels has 70 MB
MOST_ITEMS = 5_000_000  # values of JSON that is parsed whole; an empty list takes 70 bytes in Python
MOST_YAML_BYTES = 8 << 20
MOST_DEPTH = 32  # levels of YAML; a schema limits those of JSON
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def contents(path: Path | str, most: int = MOST_BYTES) -> bytes:
    """The bytes of a regular file, or of the file that a link leads to.

    Raises FileNotFoundError if it does not exist, UnreadableFileError if it is not a regular file, has more
    than `most` bytes, or may not be read.
    """
    try:
        # Without O_NONBLOCK, opening a pipe waits for a writer.
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
    """The text of a file. Raises as `contents`, and UnreadableFileError if it is not UTF-8."""
    return decoded(path, contents(path, most))


def load_json(path: Path, schema: Schema) -> Any:
    """The content of a JSON file that matches the schema.

    Raises FileNotFoundError if it does not exist, UnreadableFileError, which names the place in the file, if
    it is not such JSON.
    """
    return parse_json(path, contents(path), schema)


def parse_json(path: Path, data: bytes, schema: Schema) -> Any:
    """Same as `load_json`, for bytes that were read from the file."""
    content = loads(path, decoded(path, data))
    check(path, content, schema)
    return content


def loads(path: Path | str, text: str) -> Any:
    """The JSON of a file or of a part of one, not checked by a schema. Raises UnreadableFileError."""
    # A value takes a character: only of a longer text they are counted, which takes half as long as parsing.
    if len(text) > MOST_ITEMS and sum(map(text.count, ",[{")) > MOST_ITEMS:
        raise UnreadableFileError(path, f"more than {MOST_ITEMS:,} values, expected fewer")
    try:
        return _JSON.decode(text)
    except json.JSONDecodeError as error:
        raise UnreadableFileError(
            path, f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}"
        ) from None
    except RecursionError:
        raise UnreadableFileError(path, "its values are nested too deeply to be read") from None
    except ValueError as error:  # a number of thousands of digits
        raise UnreadableFileError(path, f"not JSON that tilewright reads: {error}") from None


def check(path: Path | str, value: Any, schema: Schema) -> None:
    """Raises UnreadableFileError if the content of a file does not match the schema."""
    try:
        schema.check(value)
    except Mismatch as mismatch:
        raise UnreadableFileError(path, str(mismatch)) from None


def _read(descriptor: int, path: Path | str, size: int, most: int) -> bytes:
    """As many bytes as the file's size says. Files of /proc have size 0, and some of them never end."""
    if size > most:
        raise UnreadableFileError(path, f"more than {most} bytes")
    # Usually one read gets the whole file, and nothing is joined. Some files of /proc return whole pages
    # only.
    parts = [os.read(descriptor, max(size + 1, 4096))]
    length = len(parts[0])
    while length <= size and (part := os.read(descriptor, size + 1 - length)):
        parts.append(part)
        length += len(part)
    if length > size:
        raise UnreadableFileError(path, "it holds more than its size says, as files of /proc do")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def decoded(path: Path, data: bytes) -> str:
    """The text of UTF-8. Raises UnreadableFileError."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableFileError(path, f"byte {error.start}: not UTF-8") from None


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


# `json.loads` would make a decoder for each row of a table.
_JSON = json.JSONDecoder(parse_constant=_no_number)
