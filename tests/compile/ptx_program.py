"""Reads the PTX of a kernel as a list of instructions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass
class Instruction:
    text: str
    name: str
    operands: list[str]
    guard: str = ""  # a predicate, with ! if negated
    run: Any = None


def _split(text: str) -> list[str]:
    """The operands of an instruction: what commas outside of brackets divide."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


class Program:
    """The instructions of a kernel's PTX."""

    def __init__(self, ptx: str) -> None:
        self.threads = int(re.search(r"\.reqntid (\d+)", ptx)[1])
        self.entry = re.search(r"\.visible \.entry (\w+)", ptx)[1]
        ptx = re.sub(
            r"\{\s*\.reg \.pred\s+P1;\s*LAB_WAIT:\s*mbarrier\.try_wait\.parity\.shared\.b64 P1, "
            r"(\[.*?\]), (\S+), \d+;.*?DONE:\s*\}",
            r"wait.parity \1, \2;",
            ptx,
            flags=re.DOTALL,
        )
        ptx = re.sub(
            r"\{\s*\.reg \.b8 a, b, c, d;\s*((?:cvt\.rn\.satfinite\.e2m1x2\.f32 [^;]*;\s*){4})"
            r"mov\.b32 (%r\d+), \{a, b, c, d\};\s*\}",
            lambda match: f"e2m1x8 {match[2]}, {', '.join(re.findall(r'%r[0-9]+', match[1]))};",
            ptx,
        )
        body = ptx[ptx.index("{", ptx.index(".reqntid")) + 1 : ptx.rindex("}")]
        body = re.sub(r"//[^\n]*", "", body)
        self.code: list[Instruction] = []
        self.labels: dict[str, int] = {}
        for part in re.split(r"(?<=[;:])\s*\n|;", body):
            text = part.strip()
            while match := re.match(r"(\$?\w+):\s*", text):
                self.labels[match[1]] = len(self.code)
                text = text[match.end() :]
            text = text.rstrip(";").strip()
            if not text or text.startswith("."):
                continue
            guard = ""
            if match := re.match(r"@(!?%p\d+)\s+", text):
                guard, text = match[1], text[match.end() :]
            name, _, rest = text.partition("\t") if "\t" in text else text.partition(" ")
            self.code.append(Instruction(text, name.strip(), _split(rest), guard))
