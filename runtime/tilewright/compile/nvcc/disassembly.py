"""The machine code of objects, as nvdisasm prints it.

nvdisasm takes 0.2 s to start, a tenth of what a lean unit takes in all, and reads one file. So the functions
of several objects are put into one, without what belongs to them beside their code.

A digest says whether two objects hold the same machine code. The same compiler makes the same bytes of a
source on every machine, and of two sources that differ in comments or in how C++ is put alone.
"""

from __future__ import annotations

import hashlib
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilewright.compile.machine_code import MachineCode
from tilewright.compile.nvcc.listings import parse_sass, sass_functions
from tilewright.compile.nvcc.sass_hazards import find_hazards
from tilewright.errors import BuildError

_HEAD = struct.Struct("<16sHHIQQQIHHHHHH")  # Elf64_Ehdr
_SECTION = struct.Struct("<IIQQQQIIQQ")  # Elf64_Shdr
_PROGBITS, _STRTAB, _CODE_FLAGS, _ALIGNMENT = 1, 3, 6, 128
_NOBITS = 8
_TEXT = b".text."
# What of a cubin runs, and what the driver is told of it: registers, parameters, constants, shared memory.
# Names of symbols, notes of the tools and debuggers' tables are not among it.
_RUNS = (_TEXT, b".nv.info", b".nv.constant", b".nv.shared", b".nv.global", b".rela.text.")


def disassemble(cuobjdump: str, objects: Sequence[Path]) -> list[MachineCode]:
    """The machine code of each object. The objects are of one target.

    `cuobjdump` has nvdisasm beside it, else that is on PATH. Raises BuildError in their words.
    """
    beside = Path(cuobjdump).with_name("nvdisasm")
    nvdisasm = str(beside) if beside.is_file() else beside.name
    machine_code = []
    with tempfile.TemporaryDirectory(dir=objects[0].parent) as folder:
        merged = Path(folder) / "merged"
        head, code, homes = b"", [], []
        for home, path in enumerate(objects):
            inside = Path(folder) / str(home)
            inside.mkdir()
            state = hashlib.sha256()
            _said([cuobjdump, "--extract-elf", "all", str(path.resolve())], inside)
            for cubin in sorted(inside.iterdir()):
                data = cubin.read_bytes()
                head = data[: _HEAD.size]
                for name, kind, content in _sections(data):
                    state.update(b"%d:%s%d:%s" % (len(name), name, len(content), content))
                    if kind == _PROGBITS and name.startswith(_TEXT):
                        homes.append((home, name.removeprefix(_TEXT).decode(errors="replace")))
                        code.append(content)
            machine_code.append(MachineCode({}, state.hexdigest()[:32]))
        if not code:
            return machine_code
        merged.write_bytes(_file(head, code))
        texts = sass_functions(_said([nvdisasm, "--no-dataflow", "--print-code", str(merged)], Path(folder)))
    for index, (home, function_name) in enumerate(homes):
        text = texts.get(str(index), "")
        function = machine_code[home].functions[function_name] = parse_sass(text)
        function.hazards = [hazard.to_json() for hazard in find_hazards(text, code[index])]
    return machine_code


def _sections(cubin: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Name, type and content of what runs; of memory that nothing is loaded into, its size."""
    head = _HEAD.unpack_from(cubin)
    table, count, names_at = head[6], head[12], head[13]
    sections = [_SECTION.unpack_from(cubin, table + index * _SECTION.size) for index in range(count)]
    names = sections[names_at][4]
    for section in sections:
        begin = names + section[0]
        name = cubin[begin : cubin.index(b"\0", begin)]
        if name.startswith(_RUNS):
            size = section[5]
            content = b"%d" % size if section[1] == _NOBITS else cubin[section[4] : section[4] + size]
            yield name, section[1], content


def _file(head: bytes, code: Sequence[bytes]) -> bytes:
    """An ELF file of a cubin's head with this code, in sections .text.0, .text.1, ..."""
    names = b"\0.shstrtab\0"
    sections = [(0,) * 10]
    body = bytearray(_HEAD.size)
    for index, function_code in enumerate(code):
        body += bytes(-len(body) % _ALIGNMENT)
        sections.append(
            (len(names), _PROGBITS, _CODE_FLAGS, 0, len(body), len(function_code), 0, 0, _ALIGNMENT, 0)
        )
        names += _TEXT + b"%d\0" % index
        body += function_code
    sections.append((1, _STRTAB, 0, 0, len(body), len(names), 0, 0, 1, 0))
    body += names
    body += bytes(-len(body) % 8)
    whole = list(_HEAD.unpack(head))
    whole[5:7] = 0, len(body)  # no segments; where the sections are listed
    whole[9:] = 0, 0, _SECTION.size, len(sections), len(sections) - 1
    _HEAD.pack_into(body, 0, *whole)
    return bytes(body) + b"".join(_SECTION.pack(*section) for section in sections)


def _said(command: Sequence[str], folder: Path) -> str:
    result = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
    )
    if result.returncode != 0:
        raise BuildError(f"{' '.join(command)} exits {result.returncode}: {result.stderr.strip()[:500]}")
    return result.stdout
