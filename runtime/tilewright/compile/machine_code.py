"""What an object holds: the descriptor of its kernel, and what its functions take and consist of."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.errors import BuildError


@dataclass
class Resources:
    """What a compiler says that a function takes."""

    registers: int = 0
    barriers: int = 0
    static_smem_bytes: int = 0
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0


@dataclass
class FunctionCode:
    """The machine code of a function."""

    code_bytes: int = 0
    tensor_instructions: Counter[str] = field(default_factory=Counter)
    data_instructions: Counter[str] = field(default_factory=Counter)
    grid_dependency: Counter[str] = field(default_factory=Counter)
    hazards: list[dict[str, object]] = field(default_factory=list)  # as a report holds them


class MachineCode(NamedTuple):
    """What an object holds for a GPU."""

    functions: dict[str, FunctionCode]  # by name
    digest: str  # 32 hexadecimal digits: equal where the machine code is, with its constants and resources


@dataclass(frozen=True)
class Descriptor:
    """The head of the `tilewright_kernel` that an object exports."""

    abi_version: int
    args_bytes: int
    threads: int
    smem_bytes: int


def read_descriptor(path: Path, name: str) -> Descriptor | None:
    """Reads `tilewright_<name>` from a 64-bit little-endian ELF object; None if the object does not define
    it."""
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


def inspect(
    path: Path,
    name: str,
    functions: Mapping[str, FunctionCode],
    resources: Iterable[Resources] = (),
    warnings: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    """What a kernel's report says of the unit's functions: their machine code, by name, and their resources.

    Where a unit holds several functions, the numbers are the largest and the counts the sum.
    """
    descriptor = read_descriptor(path, name)
    if descriptor is None:
        raise BuildError(f"{name}: its object does not define tilewright_{name}")
    taken = [asdict(function) for function in resources] or [asdict(Resources())]
    return {
        "registers": max(function["registers"] for function in taken),
        "barriers": max(function["barriers"] for function in taken),
        "static_smem_bytes": max(function["static_smem_bytes"] for function in taken),
        "stack_bytes": max(function["stack_bytes"] for function in taken),
        "spill_store_bytes": sum(function["spill_store_bytes"] for function in taken),
        "spill_load_bytes": sum(function["spill_load_bytes"] for function in taken),
        "warnings": list(warnings),
        "code_bytes": sum(function.code_bytes for function in functions.values()),
        "tensor_instructions": _total(function.tensor_instructions for function in functions.values()),
        "data_instructions": _total(function.data_instructions for function in functions.values()),
        "grid_dependency": _total(function.grid_dependency for function in functions.values()),
        "hazards": [
            {"function": function, **hazard}
            for function in sorted(functions)
            for hazard in functions[function].hazards
        ],
        "functions": sorted(functions),
        "threads": descriptor.threads,
        "smem_bytes": descriptor.smem_bytes,
    }


def _total(counters: Any) -> dict[str, int]:
    return dict(sorted(sum(counters, Counter[str]()).items()))
