"""Reads what the compiler made: ptxas's report, the SASS, and the descriptor in the object file."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tilewright.compile.sass_hazards import Hazard
from tilewright.errors import BuildError

# Opcodes that compute on tensor cores (HMMA, HGMMA, QGMMA, UTCHMMA, OMMA, ...), and the two that
# griddepcontrol.wait and griddepcontrol.launch_dependents become on sm_90 to sm_121.
_TENSOR = re.compile(r"^(?:UTC)?[A-Z]*MMA(?:\.|$)")
# Conversions to 4 and 8 bits, and bulk copies to shared memory: what kernels that quantise are made of.
_DATA = re.compile(r"^(?:F2FP\.SATFINITE\.E|UBLKCP(?:\.|$))")
_GRID_DEPENDENCY = re.compile(r"^(?:ACQBULK|PREEXIT)$")
_SASS_LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Za-z0-9_.]*)")
_SASS_FUNCTION = re.compile(r'^\s*\.section\s+\.text\.([^\s,"]+).*$', re.MULTILINE)
_SASS_STEP = 16  # bytes of an instruction since sm_70


@dataclass
class PtxasFunction:
    """What `ptxas -v` says of one function."""

    entry: bool = False
    registers: int = 0
    barriers: int = 0
    static_smem_bytes: int = 0
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0


@dataclass
class Ptxas:
    functions: dict[str, PtxasFunction] = field(default_factory=dict)
    warnings: list[dict[str, str]] = field(default_factory=list)  # {"code": "C7510" or "", "text"}


def parse_ptxas(log: str) -> Ptxas:
    """Reads the output of nvcc -Xptxas -v."""
    result = Ptxas()
    current = PtxasFunction()
    for line in log.splitlines():
        if match := re.search(r"Compiling entry function '([^']+)'", line):
            current = result.functions.setdefault(match[1], PtxasFunction())
            current.entry = True
        elif match := re.search(r"Function properties for (\S+)", line):
            current = result.functions.setdefault(match[1].strip("'"), PtxasFunction())
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


@dataclass
class SassFunction:
    code_bytes: int = 0
    tensor_instructions: Counter[str] = field(default_factory=Counter)
    data_instructions: Counter[str] = field(default_factory=Counter)
    grid_dependency: Counter[str] = field(default_factory=Counter)
    hazards: list[Hazard] = field(default_factory=list)


def sass_functions(text: str) -> dict[str, str]:
    """The output of nvdisasm -c, by function."""
    _, *parts = _SASS_FUNCTION.split(text)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def parse_sass(text: str) -> SassFunction:
    """Reads what nvdisasm -c prints of one function."""
    function = SassFunction()
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


@dataclass(frozen=True)
class Descriptor:
    """The head of the `tilewright_kernel` that an object exports."""

    abi_version: int
    args_bytes: int
    threads: int
    smem_bytes: int


def read_descriptor(path: Path, name: str) -> Descriptor | None:
    """Reads `tilewright_<name>` out of a 64-bit little-endian ELF object; None where it is not defined."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise BuildError(f"{path}: not a 64-bit little-endian ELF object")
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + size * index) for index in range(count)]
    symbol_name = f"tilewright_{name}".encode() + b"\0"
    for section in sections:
        if section[1] != 2:  # SHT_SYMTAB
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            symbol, _, _, home, value, _ = struct.unpack_from("<IBBHQQ", data, at)
            if 0 < home < count and data.startswith(symbol_name, names + symbol):
                return Descriptor(*struct.unpack_from("<IIII", data, sections[home][4] + value))
    return None


def inspect(path: Path, name: str, log: str, sass: Mapping[str, SassFunction]) -> dict[str, Any]:
    """What stands in a kernel's report: the resources and instructions of the unit's functions, which are
    `sass` by name.

    Where a unit holds several functions, the numbers are the largest and the counts the sum.
    """
    descriptor = read_descriptor(path, name)
    if descriptor is None:
        raise BuildError(f"{name}: its object does not define tilewright_{name}")
    ptxas = parse_ptxas(log)
    resources = [asdict(function) for function in ptxas.functions.values()] or [asdict(PtxasFunction())]
    return {
        "registers": max(function["registers"] for function in resources),
        "barriers": max(function["barriers"] for function in resources),
        "static_smem_bytes": max(function["static_smem_bytes"] for function in resources),
        "stack_bytes": max(function["stack_bytes"] for function in resources),
        "spill_store_bytes": sum(function["spill_store_bytes"] for function in resources),
        "spill_load_bytes": sum(function["spill_load_bytes"] for function in resources),
        "warnings": ptxas.warnings,
        "code_bytes": sum(function.code_bytes for function in sass.values()),
        "tensor_instructions": _total(function.tensor_instructions for function in sass.values()),
        "data_instructions": _total(function.data_instructions for function in sass.values()),
        "grid_dependency": _total(function.grid_dependency for function in sass.values()),
        "hazards": [
            {"function": function, **hazard.to_json()}
            for function in sorted(sass)
            for hazard in sass[function].hazards
        ],
        "functions": sorted(sass),
        "threads": descriptor.threads,
        "smem_bytes": descriptor.smem_bytes,
    }


def _total(counters: Any) -> dict[str, int]:
    return dict(sorted(sum(counters, Counter[str]()).items()))
