"""Spoils files: values of JSON, texts, what stands under a name."""

from __future__ import annotations

import json
import os
import random
import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# What a line of a spec, a word of a command line or a value of JSON may become.
WORDS = (
    "", " ", "0", "-1", "1", "00", "1e999", "NaN", "1" * 5000, "1_000", "0x10", "1:30", "2024-01-02",
    "2024-99-99", "null", "~", "true", "no", "é", "😀", "\u2028", "\ufeff", "a" * 3000, "[", "]", "{", "}",
    "[" * 3000, "{a: " * 3000, "- " * 3000, "[[]]", "{}", "- ", ": ", ":", ",", "#", "&a", "*a", "&a *a",
    "<<", "<<: *a", "!!python/object:os.system", "!!timestamp x", "|", ">", "%YAML 9.9", "---", "...",
    "'", '"', "`id`", "$(id)", "\\", "\t", "\n", "\r\n", "\0", "\x1b[31m", "%s", "{0}", "{{ x }}", "*",
    "?", "~x", "=", "==", "@",
    "<<<<<<< HEAD\n", "=======\n", ">>>>>>> x\n", "128x128x64", "128X128X64", "0x0x0", "1x1", "999999x1x1",
    "128 x 128 x 64", "2x1", "dynamic", "auto", "bf16", "fp8", "e4m3", "nvfp4", "mxfp8", "sm_90a", "sm_999z",
    "cooperative", "stream_k", "gemm", "quantize", "blockscaled_gemm", "specs", "generated", "m=1", "k=64",
    "n=64", "m=99999999999999999999", "k=0", "m=", "=64", "tile=128x*", "~tile=64*", "arch=sm90", "h200",
)  # fmt: skip

_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 2**31, 2**63, -(2**70), 10**40, 0.5, -0.0, 1e308, float("nan"),
    float("inf"),
    "", "x", "\ud800", "\0", "\n", "a" * 100_000, "../x", "/", "$(id)", "nvfp4", "bf16", "dynamic", "(", "[a",
    [], {}, [[]], [{}], {"": {}}, {"a": 1}, [0], [1, 1], [0, 0, 0], [1, "x", None], ["a"] * 50,
)  # fmt: skip


_LONGEST = 8_000_000  # characters of a changed text


def text(chance: random.Random, given: str, words: Sequence[str] = WORDS) -> str:
    """The text with one to four changes: cut, put in, doubled, moved, turned over; or one that is larger by
    orders of magnitude. `words` are put in, too."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        change = chance.choice(_LARGE if chance.random() < 0.15 else _CHANGES)
        given = change(chance, given, words)[:_LONGEST]
    return given


def binary(chance: random.Random, given: bytes) -> bytes:
    """The bytes with some of them changed, or other bytes."""
    if not given or chance.random() < 0.1:
        return chance.randbytes(chance.choice((0, 1, 100, 5000)))
    data = bytearray(given)
    for _ in range(chance.choice((1, 3, 30))):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def value(chance: random.Random, given: Any) -> Any:
    """The value of JSON with one to three of its parts changed, gone, doubled or renamed."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        given = _change(chance, given)
    return given


def laid_out(chance: random.Random, given: Any, rows: str | None) -> str:
    """JSON on one line, indented, or with one item of the list `rows` to a line, as our writers do."""
    if isinstance(given, dict) and isinstance(given.get(rows), list) and chance.random() < 0.7:
        head = json.dumps({name: field for name, field in given.items() if name != rows})
        body = ",\n".join(json.dumps(row) for row in given[rows])
        return f'{head[:-1]}, "{rows}": [\n{body}\n]}}\n'
    return json.dumps(given, indent=chance.choice((None, 1)))


def place(chance: random.Random, path: Path, outside: Path | None = None) -> str:
    """Puts something that is no such file in its place, and says what. `outside` is a folder that nothing may
    write to, to which links may lead."""
    path.unlink(missing_ok=True)
    if outside is not None and chance.random() < 0.5:
        return link(chance, path, outside)
    kind, make = chance.choice(_KINDS)
    make(path)
    return kind


def link(chance: random.Random, path: Path, outside: Path) -> str:
    """Puts a link to what is outside of the project in a file's place, and says to what."""
    target = chance.choice(("file", "folder", "nothing"))
    path.symlink_to(outside / target)
    return f"a link to a {target} outside"


def _span(chance: random.Random, given: str) -> tuple[int, int]:
    start = chance.randrange(len(given) + 1)
    return start, min(len(given), start + chance.choice((1, 1, 3, 10, 50)))


def _cut(chance: random.Random, given: str, words: Sequence[str]) -> str:
    return given[: chance.randrange(len(given) + 1)]


def _drop(chance: random.Random, given: str, words: Sequence[str]) -> str:
    start, end = _span(chance, given)
    return given[:start] + given[end:]


def _put(chance: random.Random, given: str, words: Sequence[str]) -> str:
    start, end = _span(chance, given)
    return given[:start] + chance.choice(words) + given[chance.choice((start, end)) :]


def _double(chance: random.Random, given: str, words: Sequence[str]) -> str:
    start, end = _span(chance, given)
    return given[:end] + given[start:end] * chance.choice((1, 2, 500)) + given[end:]


def _letter(chance: random.Random, given: str, words: Sequence[str]) -> str:
    start, _ = _span(chance, given)
    return given[:start] + chance.choice(string.printable) + given[start + 1 :]


def _line(chance: random.Random, given: str, words: Sequence[str]) -> str:
    lines = given.split("\n")
    at, to = chance.randrange(len(lines)), chance.randrange(len(lines))
    taken = lines[at] if chance.random() < 0.5 else lines.pop(at)
    lines.insert(to, " " * chance.choice((0, 0, 1, 2, 8)) + taken)
    return "\n".join(lines)


def _word(chance: random.Random, given: str, words: Sequence[str]) -> str:
    parts = given.split(" ")
    parts[chance.randrange(len(parts))] = chance.choice(words)
    return " ".join(parts)


def _at_most(number: int, part: str) -> int:
    """How often a part may stand in a text that is no longer than `_LONGEST`."""
    return min(number, 1 + _LONGEST // (len(part) + 1))


def _repeat(chance: random.Random, given: str, words: Sequence[str]) -> str:
    """A line very often."""
    lines = given.split("\n")
    at = chance.randrange(len(lines))
    number = chance.choice((100, 3_000, 100_000))
    lines[at : at + 1] = [lines[at]] * _at_most(number, lines[at])
    return "\n".join(lines)


def _nest(chance: random.Random, given: str, words: Sequence[str]) -> str:
    """A part of it within many brackets or the like."""
    start, end = _span(chance, given)
    before, behind = chance.choice(
        (
            ("[", "]"),
            ("{a: ", "}"),
            ("(", ")"),
            ("- ", ""),
            ("  ", ""),
            ("{{ ", " }}"),
            ("{% if name %}", "{% endif %}"),
        )
    )
    depth = chance.choice((10, 25, 300, 20_000))
    return given[:start] + before * depth + given[start:end] + behind * depth + given[end:]


def _splice(chance: random.Random, given: str, words: Sequence[str]) -> str:
    """One part of it into another, whole."""
    start, end = sorted((chance.randrange(len(given) + 1), chance.randrange(len(given) + 1)))
    at = chance.randrange(len(given) + 1)
    part = given[start:end]
    return given[:at] + part * _at_most(chance.choice((1, 3, 1000)), part) + given[at:]


def _multiply(chance: random.Random, given: str, words: Sequence[str]) -> str:
    """An item of a list very often, as it is or with a number."""
    parts = given.split(",")
    at = chance.randrange(len(parts))
    number, numbered = _at_most(chance.choice((300, 10_000, 300_000)), parts[at]), chance.random() < 0.5
    parts[at : at + 1] = [f"{parts[at]}{n}" if numbered else parts[at] for n in range(number)]
    return ",".join(parts)


_CHANGES: tuple[Callable[[random.Random, str, Sequence[str]], str], ...] = (
    _cut, _drop, _put, _put, _double, _letter, _line, _word, _word
)  # fmt: skip
_LARGE = (_repeat, _nest, _splice, _multiply)


def _change(chance: random.Random, given: Any) -> Any:
    """The value changed, at itself or further in."""
    if isinstance(given, (dict, list)) and given and chance.random() < 0.85:
        names: list[Any] = list(given) if isinstance(given, dict) else list(range(len(given)))
        name = chance.choice(names)
        changed: Any = given.copy()
        kind = chance.random()
        if kind < 0.75:
            changed[name] = _change(chance, changed[name])
        elif kind < 0.85:
            del changed[name]
        elif isinstance(changed, list):
            changed.append(changed[name])
        else:
            changed[chance.choice(("x", "", "name", "m", "kind", str(name).upper()))] = changed.pop(name)
        return changed
    if isinstance(given, str) and chance.random() < 0.3:
        return text(chance, given)
    if type(given) is int and chance.random() < 0.3:
        return given * chance.choice((-1, 2, 10, 1000, 10**12)) + chance.choice((0, 1))
    return chance.choice(_VALUES)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(5 << 30)


_KINDS: tuple[tuple[str, Callable[[Path], object]], ...] = (
    ("a pipe", os.mkfifo),
    ("a folder", Path.mkdir),
    ("a link to nothing", lambda path: path.symlink_to("nowhere")),
    ("a link to itself", lambda path: path.symlink_to(path.name)),
    ("a link to a folder", lambda path: path.symlink_to(".")),
    ("a link to a device", lambda path: path.symlink_to("/dev/zero")),
    ("nothing", lambda path: None),
    ("an empty file", Path.touch),
    ("a link to a file without end", lambda path: path.symlink_to("/proc/self/pagemap")),
    ("a link to a file that waits", lambda path: path.symlink_to("/proc/kmsg")),
    ("a link to a file that says it is empty", lambda path: path.symlink_to("/proc/self/environ")),
    ("a link to a process's memory", lambda path: path.symlink_to("/proc/self/mem")),
    ("a file of 5 GB", _sparse),
)
