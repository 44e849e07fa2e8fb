"""Reads what `nvcc -fdevice-time-trace` writes: a JSON of some 2 GB, too large to parse whole."""

from __future__ import annotations

import mmap
import re
from collections import Counter
from pathlib import Path
from typing import Any

_EVENT = re.compile(
    rb'"args"\s*:\s*\{\s*"(?:detail|name)"\s*:\s*"([^"]{0,300})[^"]*"[^}]*\}\s*,[^{}]*?"dur"\s*:\s*(\d+)\s*,'
    rb'\s*"name"\s*:\s*"([^"]*)"[^{}]*?"ts"\s*:\s*(\d+)'
)
_SHOWN = 15


def summarize(path: Path) -> dict[str, Any]:
    """Seconds by kind of work (without what is nested in it), by function template (its own), and by CUTLASS
    member function (with all it instantiates). Tracing itself doubles the front end's time.
    """
    kinds: Counter[str] = Counter()
    own: Counter[str] = Counter()
    members: Counter[str] = Counter()
    stack: list[tuple[int, str, str]] = []  # end, kind, function
    for start, length, kind, name in _events(path):
        while stack and stack[-1][0] <= start:
            stack.pop()
        function = re.split(r"[<(\[]", name)[0].strip() if "Template Function" in kind else ""
        if stack:
            kinds[stack[-1][1]] -= length
            own[stack[-1][2]] -= length
        kinds[kind] += length
        own[function] += length
        if function.startswith("cutlass::") and function not in (entry[2] for entry in stack):
            members[function] += length
        stack.append((start + length, kind, function))
    own.pop("", None)
    return {"kinds": _seconds(kinds), "functions": _seconds(own), "members": _seconds(members)}


def _events(path: Path) -> list[tuple[int, int, str, str]]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        events = [
            (int(match[4]), int(match[2]), match[3].decode(), match[1].decode(errors="replace"))
            for match in _EVENT.finditer(text)
        ]
    return sorted(events, key=lambda event: (event[0], -event[1]))


def _seconds(microseconds: Counter[str]) -> dict[str, float]:
    return {name: round(value / 1e6, 2) for name, value in microseconds.most_common(_SHOWN)}
