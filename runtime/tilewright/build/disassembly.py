"""The machine code of objects, as nvdisasm prints it.

nvdisasm takes 0.2 s to start, a tenth of what a lean unit takes in all, and reads one file. So the functions
of several objects are put into one, without what belongs to them beside their code.
"""

from __future__ import annotations

import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilewright.build.machine_code import SassFunction, parse_sass
from tilewright.errors import BuildError

_HEAD = struct.Struct("<16sHHIQQQIHHHHHH")  # Elf64_Ehdr
_SECTION = struct.Struct("<IIQQQQIIQQ")  # Elf64_Shdr
_PROGBITS, _STRTAB, _CODE_FLAGS, _ALIGNMENT = 1, 3, 6, 128
_TEXT = b".text."


def disassemble(cuobjdump: str, objects: Sequence[Path]) -> list[dict[str, SassFunction]]:
    """What each object's functions are made of, by name. The objects are of one target.

    `cuobjdump` has nvdisasm beside it, else that is on PATH. Raises BuildError in their words.
    """
    beside = Path(cuobjdump).with_name("nvdisasm")
    nvdisasm = str(beside) if beside.is_file() else beside.name
    found: list[dict[str, SassFunction]] = [{} for _ in objects]
    with tempfile.TemporaryDirectory(dir=objects[0].parent) as folder:
        merged = Path(folder) / "merged"
        head, code, homes = b"", [], []
        for home, path in enumerate(objects):
            inside = Path(folder) / str(home)
            inside.mkdir()
            _said([cuobjdump, "--extract-elf", "all", str(path.resolve())], inside)
            for cubin in sorted(inside.iterdir()):
                data = cubin.read_bytes()
                head = data[: _HEAD.size]
                for each in _functions(data):
                    homes.append((home, each[0]))
                    code.append(each[1])
        if not code:
            return found
        merged.write_bytes(_file(head, code))
        functions = parse_sass(_said([nvdisasm, "--no-dataflow", "--print-code", str(merged)], Path(folder)))
    for index, (home, name) in enumerate(homes):
        found[home][name] = functions.get(str(index), SassFunction())
    return found


def _functions(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    """Name and code of each."""
    head = _HEAD.unpack_from(cubin)
    table, count, names_at = head[6], head[12], head[13]
    sections = [_SECTION.unpack_from(cubin, table + index * _SECTION.size) for index in range(count)]
    names = sections[names_at][4]
    for section in sections:
        begin = names + section[0]
        name = cubin[begin : cubin.index(b"\0", begin)]
        if section[1] == _PROGBITS and name.startswith(_TEXT):
            yield (
                name.removeprefix(_TEXT).decode(errors="replace"),
                cubin[section[4] : section[4] + section[5]],
            )


def _file(head: bytes, code: Sequence[bytes]) -> bytes:
    """An ELF file of a cubin's head with this code, in sections .text.0, .text.1, ..."""
    names = b"\0.shstrtab\0"
    sections = [(0,) * 10]
    body = bytearray(_HEAD.size)
    for index, each in enumerate(code):
        body += bytes(-len(body) % _ALIGNMENT)
        sections.append((len(names), _PROGBITS, _CODE_FLAGS, 0, len(body), len(each), 0, 0, _ALIGNMENT, 0))
        names += _TEXT + b"%d\0" % index
        body += each
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
