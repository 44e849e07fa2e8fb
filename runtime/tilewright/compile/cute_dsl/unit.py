"""Compiles a program in CuTe-DSL: `python -m tilewright.compile.cute_dsl.unit SOURCE ... -- CXX ...`.

    the program -> PTX (CuTe-DSL) -> cubin (ptxas) -> fat binary -> the host's unit, which embeds it -> object

A source defines `HOST`, the unit of the host in C++; `program`, a function of cute.jit; `arguments()`, what
it is compiled for; and `PARAMETERS`, the types of its kernel's parameters as PTX writes them. Or sources
share a program that has the last three: `PROGRAM` is its file among the headers, and the values of `SETTINGS`
are the arguments of its class `Program`. A program may import other modules that lie among the headers, as
the package `tilewright_programs`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

_PACKAGE = "tilewright_programs"
_ENTRY = re.compile(r"\.visible \.entry (\w+)\((.*?)\)", re.DOTALL)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align \d+ )?\.(\w+)(?:\s+\.ptr(?:\s+\.\w+)*(?:\s+\d+)?)?\s+\w+(\[\d+\])?"
)


class RefusedError(Exception):
    """What is wrong with a program."""


def main(arguments: Sequence[str]) -> int:
    own, host = _split(arguments)
    options = _options().parse_args(own)
    folder = Path.cwd()
    _prepare(options.arch, folder / "scratch")
    _offer(host)
    try:
        source = _load(options.source)
        shared = _shared(source, host)
        program = shared.Program(**source.SETTINGS) if shared else source
        ptx = named(_compiled(program, folder / "scratch"), options.source.stem, program.PARAMETERS)
        (folder / "scratch" / "kernel.ptx").write_text(ptx, encoding="utf-8")
        _run(
            [options.tools / "ptxas", "-v", "-O3", f"-arch={options.arch}", "scratch/kernel.ptx"],
            ["-o", "scratch/kernel.cubin"],
        )
        code = options.arch.removeprefix("sm_")
        _run(
            [options.tools / "fatbinary", "-64", "--create=kernel.fatbin"],
            [f"--image3=kind=elf,sm={code},file=scratch/kernel.cubin"],
        )
        _run(
            [*host, "-MD", "-MF", options.depfile, "-o", options.object, "-x", "c++", "-c", "-"],
            text=source.HOST,
        )
        if shared:
            depfile = Path(options.depfile)
            read = " ".join([depfile.read_text(encoding="utf-8").rstrip(), str(shared.__file__), *_parts()])
            depfile.write_text(f"{read}\n", encoding="utf-8")
    except RefusedError as error:
        print(f"tilewright-cute-dsl: {options.source}: error: {error}", flush=True)
        return 1
    except subprocess.CalledProcessError as error:
        return error.returncode
    finally:
        Path("kernel.fatbin").unlink(missing_ok=True)
    return 0


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments before `--`, and the host compiler's command after it."""
    at = arguments.index("--")
    return [*arguments[:at]], [*arguments[at + 1 :]]


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Compiles a program in CuTe-DSL to an object.")
    parser.add_argument("source", type=Path)
    parser.add_argument("--arch", required=True, help="the target, e.g. sm_90a")
    parser.add_argument("--tools", required=True, type=Path, help="the folder of ptxas and fatbinary")
    parser.add_argument("--object", required=True)
    parser.add_argument("--depfile", required=True)
    return parser


def _prepare(arch: str, scratch: Path) -> None:
    """Sets what CuTe-DSL reads when it is imported. Without an architecture it compiles for another one."""
    scratch.mkdir(exist_ok=True)
    for name in [name for name in os.environ if name.startswith("CUTE_DSL_")]:
        del os.environ[name]  # some change what it compiles
    os.environ["CUTE_DSL_ARCH"] = arch
    os.environ["CUTE_DSL_NO_CACHE"] = "1"
    sys.dont_write_bytecode = True


def _load(path: Path) -> ModuleType:
    """The module of a source."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # its name ends with .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where CuTe-DSL looks for the text of functions
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise RefusedError(f"{type(error).__name__}: {error}") from error
    return module


def _folders(host: Sequence[str]) -> list[Path]:
    """The folders of headers that the host compiler's command names."""
    return [Path(word.removeprefix("-I")) for word in host if word.startswith("-I")]


def _offer(host: Sequence[str]) -> None:
    """Lets programs import their other modules: `from tilewright_programs.FAMILY.MODULE import ...`."""
    package = ModuleType(_PACKAGE)
    package.__path__ = [str(folder / "tilewright") for folder in _folders(host)]
    sys.modules[_PACKAGE] = package


def _parts() -> list[str]:
    """The files of the modules that a program imported of its package."""
    parts = [module for name, module in sys.modules.items() if name.startswith(f"{_PACKAGE}.")]
    return [module.__file__ for module in parts if module.__file__ is not None]


def _shared(source: ModuleType, host: Sequence[str]) -> ModuleType | None:
    """The module of the program that a source names; None if it names none."""
    name = getattr(source, "PROGRAM", None)
    if name is None:
        return None
    path = next((folder / name for folder in _folders(host) if (folder / name).exists()), None)
    if path is None:
        raise RefusedError(f"expected the program {name} among the headers, got none")
    return _load(path)


def _compiled(source: Any, folder: Path) -> str:
    """The PTX of a program."""
    cute: Any = importlib.import_module("cutlass.cute")  # an extra, which a checker of types may lack
    try:
        cute.compile(source.program, *source.arguments(), options=f"--keep-ptx --dump-dir={folder}")
    except Exception as error:
        raise RefusedError(f"{type(error).__name__}: {error}") from error
    (path,) = folder.glob("*.ptx")
    return path.read_text(encoding="utf-8")


def named(ptx: str, name: str, parameters: Sequence[str]) -> str:
    """The PTX with the kernel's own name as its entry's. Refuses other parameters than the host passes."""
    entries = _ENTRY.findall(ptx)
    if len(entries) != 1:
        raise RefusedError(f"expected one kernel, got {len(entries)}")
    entry, declared = entries[0]
    actual = tuple("".join(parts) for parts in _PARAMETER.findall(declared))
    if actual != tuple(parameters):
        raise RefusedError(f"expected the parameters {', '.join(parameters)}, got {', '.join(actual)}")
    return re.sub(rf"\b{entry}(?=\b|_param_)", name, ptx)


def _run(command: Sequence[str | Path], rest: Sequence[str] = (), *, text: str | None = None) -> None:
    """Runs a program, whose output is this process's. Raises CalledProcessError if it fails."""
    sys.stdout.flush()
    subprocess.run([*command, *rest], input=text, text=True, check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
