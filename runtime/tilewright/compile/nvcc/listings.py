"""Reads what ptxas says of functions, and their SASS as nvdisasm prints it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tilewright.compile.machine_code import FunctionCode, Resources

# Opcodes that compute on tensor cores (HMMA, HGMMA, QGMMA, UTCHMMA, OMMA, ...), and the two that
# griddepcontrol.wait and griddepcontrol.launch_dependents become on sm_90 to sm_121.
_TENSOR = re.compile(r"^(?:UTC)?[A-Z]*MMA(?:\.|$)")
# Conversions to 4 and 8 bits, loads of 32 bytes, bulk copies and TMA loads: what kernels that quantise are
# made of.
_DATA = re.compile(r"^(?:F2FP\.SATFINITE\.E|LDG\.E\.ENL2\.256|(?:UBLKCP|UTMALDG)(?:\.|$))")
_GRID_DEPENDENCY = re.compile(r"^(?:ACQBULK|PREEXIT)$")
_SASS_LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Za-z0-9_.]*)")
_SASS_FUNCTION = re.compile(r'^\s*\.section\s+\.text\.([^\s,"]+).*$', re.MULTILINE)
_SASS_STEP = 16  # bytes of an instruction since sm_70


@dataclass
class Ptxas:
    functions: dict[str, Resources] = field(default_factory=dict)
    warnings: list[dict[str, str]] = field(default_factory=list)  # {"code": "C7510" or "", "text"}


def parse_ptxas(log: str) -> Ptxas:
    """Reads the output of nvcc -Xptxas -v."""
    result = Ptxas()
    current = Resources()
    for line in log.splitlines():
        if match := re.search(r"Compiling entry function '([^']+)'", line):
            current = result.functions.setdefault(match[1], Resources())
        elif match := re.search(r"Function properties for (\S+)", line):
            current = result.functions.setdefault(match[1].strip("'"), Resources())
        elif match := re.search(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line
        ):
            current.stack_bytes, current.spill_store_bytes, current.spill_load_bytes = map(
                int, match.groups()
            )
        elif match := re.search(r"\bUsed (\d+) registers", line):
            current.registers = int(match[1])
            barriers = re.search(r"used (\d+) barriers", line)
            current.barriers = int(barriers[1]) if barriers else 0
            shared = re.search(r"(\d+) bytes smem", line)
            current.static_smem_bytes = int(shared[1]) if shared else 0
        elif match := re.search(r"^ptxas (?:info|warning)[^(]*\((C\d+)\)\s*(.*)", line):
            result.warnings.append({"code": match[1], "text": match[2].strip()})
        elif match := re.search(r"^ptxas .*\bwarning\s*:\s*(.*)", line):
            result.warnings.append({"code": "", "text": match[1].strip()})
    return result


def sass_functions(text: str) -> dict[str, str]:
    """The output of nvdisasm -c, by function."""
    _, *parts = _SASS_FUNCTION.split(text)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def parse_sass(text: str) -> FunctionCode:
    """Reads what nvdisasm -c prints of one function."""
    function = FunctionCode()
    for line in text.splitlines():
        if match := _SASS_LINE.match(line):
            function.code_bytes = int(match[1], 16) + _SASS_STEP
            opcode = match[2]
            if _TENSOR.match(opcode):
                function.tensor_instructions[opcode] += 1
            elif _DATA.match(opcode):
                function.data_instructions[opcode] += 1
            elif _GRID_DEPENDENCY.match(opcode):
                function.grid_dependency[opcode] += 1
    return function
