"""Programs and libraries that the host's C++ compiler makes for tests.

A program is compiled once for all test processes and sessions of a checkout, and again when a file that it
includes, its options or the compiler change. `make clean` removes it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/tests"
NO_FILES: Mapping[str, str] = {}


def compiled(
    name: str,
    sources: Sequence[str | Path],
    options: Iterable[str],
    *,
    files: Mapping[str, str] = NO_FILES,
    link: Iterable[str] = (),
    compiler: Sequence[str] = (),
    folder: Path = FOLDER,
) -> Path:
    """The program `name`, compiled from `sources` if it is missing or outdated. Skips without a compiler.

    files: texts by their path in a folder which is searched for headers first, and for `sources`.
    """
    compiler = compiler or [host_compiler()]
    options, link = list(options), list(link)
    recipe = [list(map(str, sources)), options, dict(files), link, _identity(compiler)]
    digest = hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]
    entry = folder / f"{name}-{digest}"
    entry.mkdir(parents=True, exist_ok=True)
    program, inputs = entry / name, entry / "inputs.json"
    with FileLock(entry / "lock"):
        if program.exists() and inputs.exists() and _current(json.loads(inputs.read_text(encoding="utf-8"))):
            return program
        inputs.unlink(missing_ok=True)
        for path, text in files.items():
            (entry / path).parent.mkdir(parents=True, exist_ok=True)
            (entry / path).write_text(text, encoding="utf-8")
        running, objects, lists = [], [], []
        for number, source in enumerate(sources):
            objects.append(entry / f"{number}.o")
            lists.append(entry / f"{number}.d")
            command = [*compiler, f"-I{entry}", *options, "-MD", "-MF", str(lists[-1])]
            running.append(subprocess.Popen([*command, "-c", str(entry / source), "-o", str(objects[-1])]))
        assert [process.wait() for process in running] == [0] * len(running), f"{name} does not compile"
        # A process may have loaded the old library: the new one is another file.
        linked = entry / f"{name}.new"
        subprocess.run([*compiler, *options, *map(str, objects), *link, "-o", str(linked)], check=True)
        linked.replace(program)
        included = sorted({path for file in lists for path in _dependencies(file)})
        inputs.write_text(json.dumps({path: _sha256(Path(path)) for path in included}), encoding="utf-8")
    return program


def run(program: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, whatever its exit code."""
    command = [str(program), *map(str, words)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def host_compiler() -> str:
    """The path of the C++ compiler; the test is skipped where there is none."""
    path = shutil.which("c++") or shutil.which("g++")
    if path is None:
        pytest.skip("no C++ compiler")
    return path


def empty_headers(names: Iterable[str]) -> dict[str, str]:
    """Headers which hold nothing, by name: what they declare is the test's own."""
    return dict.fromkeys(names, "#pragma once\n")


def _identity(compiler: Sequence[str]) -> list[str | int]:
    """What changes when the compiler is another."""
    path = Path(shutil.which(compiler[0]) or compiler[0]).resolve()
    status = path.stat()
    return [*compiler, str(path), status.st_size, status.st_mtime_ns]


def _current(inputs: Mapping[str, str]) -> bool:
    return all(Path(path).is_file() and _sha256(Path(path)) == digest for path, digest in inputs.items())


def _dependencies(list_file: Path) -> list[str]:
    """The files that a compiler's rule for make names: `target: file file \\`."""
    text = list_file.read_text(encoding="utf-8").replace("\\\n", " ")
    marked = text.partition(": ")[2].replace("\\ ", "\0")
    return [word.replace("\0", " ") for word in marked.split()]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
