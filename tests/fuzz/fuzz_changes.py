"""Spoils files: values of JSON, texts, what stands under a name."""

from __future__ import annotations

import json
import os
import random
import string
from collections.abc import Callable
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


def text(chance: random.Random, given: str) -> str:
    """The text with one to four changes: cut, put in, doubled, moved, turned over."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        given = chance.choice(_CHANGES)(chance, given)
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
        head = json.dumps({name: one for name, one in given.items() if name != rows})
        body = ",\n".join(json.dumps(row) for row in given[rows])
        return f'{head[:-1]}, "{rows}": [\n{body}\n]}}\n'
    return json.dumps(given, indent=chance.choice((None, 1)))


def place(chance: random.Random, path: Path) -> str:
    """Puts something that is no such file in its place, and says what."""
    path.unlink(missing_ok=True)
    kind, make = chance.choice(_KINDS)
    make(path)
    return kind


def _span(chance: random.Random, given: str) -> tuple[int, int]:
    start = chance.randrange(len(given) + 1)
    return start, min(len(given), start + chance.choice((1, 1, 3, 10, 50)))


def _cut(chance: random.Random, given: str) -> str:
    return given[: chance.randrange(len(given) + 1)]


def _drop(chance: random.Random, given: str) -> str:
    start, end = _span(chance, given)
    return given[:start] + given[end:]


def _put(chance: random.Random, given: str) -> str:
    start, end = _span(chance, given)
    return given[:start] + chance.choice(WORDS) + given[chance.choice((start, end)) :]


def _double(chance: random.Random, given: str) -> str:
    start, end = _span(chance, given)
    return given[:end] + given[start:end] * chance.choice((1, 2, 500)) + given[end:]


def _letter(chance: random.Random, given: str) -> str:
    start, _ = _span(chance, given)
    return given[:start] + chance.choice(string.printable) + given[start + 1 :]


def _line(chance: random.Random, given: str) -> str:
    lines = given.split("\n")
    at, to = chance.randrange(len(lines)), chance.randrange(len(lines))
    taken = lines[at] if chance.random() < 0.5 else lines.pop(at)
    lines.insert(to, " " * chance.choice((0, 0, 1, 2, 8)) + taken)
    return "\n".join(lines)


def _word(chance: random.Random, given: str) -> str:
    words = given.split(" ")
    words[chance.randrange(len(words))] = chance.choice(WORDS)
    return " ".join(words)


_CHANGES: tuple[Callable[[random.Random, str], str], ...] = (
    _cut, _drop, _put, _put, _double, _letter, _line, _word, _word
)  # fmt: skip


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


_KINDS: tuple[tuple[str, Callable[[Path], object]], ...] = (
    ("a pipe", os.mkfifo),
    ("a folder", Path.mkdir),
    ("a link to nothing", lambda path: path.symlink_to("nowhere")),
    ("a link to itself", lambda path: path.symlink_to(path.name)),
    ("a link to a folder", lambda path: path.symlink_to(".")),
    ("a link to a device", lambda path: path.symlink_to("/dev/zero")),
    ("nothing", lambda path: None),
    ("an empty file", Path.touch),
)
