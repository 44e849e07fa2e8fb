"""Finds nvcc, the host compiler, CUTLASS and the tools that read machine code.

nvcc: `--nvcc`, CUDA_HOME, PATH, the pip wheels. CUTLASS: `--cutlass`, CUTLASS_PATH, the nvidia-cutlass
wheel (whose Python package is located, never imported).
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from tilewright.compile.nvcc.cutlass import find_cutlass, headers_release
from tilewright.compile.system import package_folders, run
from tilewright.compile.toolchain import HostToolchain, find_host, host_facts, host_hint
from tilewright.errors import ToolchainError

log = logging.getLogger("tilewright")

MINIMUM_NVCC = (12, 8)  # the first with sm_100a and sm_120a; 13.0 is what is tested
INSTALL_HINT = "To install nvcc, cuobjdump and CUTLASS: pip install 'tilewright[toolchain]'"
_NEWER_HINT = "A newer nvcc may: `tilewright toolchain` lists those of this machine, and --nvcc names one."
_OPTION_HINT = "{0} names the one place to look: give it the path of {1}, or leave it out."


@dataclass(frozen=True)
class NvccToolchain(HostToolchain):
    """Everything a build of CUDA kernels runs or includes. Paths are absolute."""

    influences = (*HostToolchain.influences, "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")

    nvcc: Path
    nvcc_origin: str  # where it was found: "--nvcc", "CUDA_HOME", "PATH" or "pip wheels"
    nvcc_version: str  # the last lines of `nvcc --version`
    root: Path  # of the toolkit: holds include/
    lib: Path  # holds libcudart_static.a
    cutlass: Path | None  # an include folder; None without CUTLASS, which most kernels do not include
    cutlass_version: str  # empty without CUTLASS
    cuobjdump: Path

    @property
    def include(self) -> Path:
        return self.root / "include"

    @property
    def versions(self) -> tuple[str, ...]:
        return (self.nvcc_version, *super().versions, _headers_version(self.include))

    @property
    def runtime_includes(self) -> tuple[Path, ...]:
        return (self.include,)

    @property
    def link_options(self) -> tuple[str, ...]:
        return (f"-L{self.lib}", "-lcudart_static")

    @property
    def named_paths(self) -> dict[str, Path]:
        headers = {} if self.cutlass is None else {"the folder of CUTLASS headers": self.cutlass}
        return {**headers, "the path of nvcc": self.nvcc}

    @property
    def headers_release(self) -> str:
        return self.cutlass_version

    @cached_property
    def without_cutlass(self) -> NvccToolchain:
        """The toolchain of units that include none of CUTLASS's headers."""
        return self if self.cutlass is None else replace(self, cutlass=None, cutlass_version="")

    @cached_property
    def parts(self) -> tuple[Path, ...]:
        """What nvcc runs and reads besides headers, which comes in other packages than nvcc itself."""
        output = run([str(self.nvcc), f"-ccbin={self.host[0]}", "--dryrun", "x.cu"], check=False)
        named = dict(re.findall(r"^#\$ (CICC_PATH|NVVMIR_LIBRARY_DIR|PATH)=(.*)$", output, re.MULTILINE))
        search = os.pathsep.join(filter(None, (named.get("CICC_PATH"), named.get("PATH"))))
        tools = [shutil.which(name, path=search) for name in ("cicc", "cudafe++", "ptxas", "fatbinary")]
        bitcode = (
            sorted(Path(named["NVVMIR_LIBRARY_DIR"]).glob("*.bc")) if named.get("NVVMIR_LIBRARY_DIR") else []
        )
        return (*(Path(tool) for tool in tools if tool), *bitcode)

    @cached_property
    def release(self) -> str:
        """nvcc's release, e.g. "13.0.88"."""
        match = re.search(r"\bV(\d+\.\d+\.\d+)", self.nvcc_version)
        return match[1] if match else "unknown"

    @cached_property
    def gpu_codes(self) -> frozenset[int]:
        """The architectures nvcc compiles for, e.g. 90, 100, 121."""
        return frozenset(
            int(code) for code in re.findall(r"sm_(\d+)", run([str(self.nvcc), "--list-gpu-code"]))
        )

    def describe(self) -> dict[str, str]:
        return {"nvcc": self.release, **super().describe(), "cutlass": self.cutlass_version}

    def require(self, arch: str) -> None:
        """Raises ToolchainError where nvcc does not know `arch` ("sm_90a", "sm_100f")."""
        code = re.fullmatch(r"sm_(\d+)[af]?", arch)
        if code is None or int(code[1]) not in self.gpu_codes:
            supported = ", ".join(f"sm_{number}" for number in sorted(self.gpu_codes))
            raise ToolchainError(
                f"nvcc {self.release} ({self.nvcc}) cannot compile for {arch}; it knows {supported}",
                hint=_NEWER_HINT,
            )
        # The list has only numbers, of which not all have an "f": there is no sm_90f, and none before 12.9.
        gencode = f"-gencode=arch=compute_{arch.removeprefix('sm_')},code={arch}"
        output = run([str(self.nvcc), f"-ccbin={self.host[0]}", gencode, "--dryrun", "x.cu"], check=False)
        if refused := re.search(r"^nvcc fatal\s*:\s*(.*architecture.*)$", output, re.MULTILINE):
            raise ToolchainError(
                f"nvcc {self.release} ({self.nvcc}) cannot compile for {arch}: {refused[1]}",
                hint=_NEWER_HINT,
            )


def find_toolchain(nvcc: str | Path | None = None, cutlass: str | Path | None = None) -> NvccToolchain:
    """Finds a toolchain; an explicit `nvcc` or `cutlass` is taken or refused, never replaced.

    It may lack CUTLASS, unless an option or CUTLASS_PATH names a place for its headers.

    Raises ToolchainError that names every place tried, what was wrong there, and the remedy.
    """
    tried: dict[str, list[str]] = {name: [] for name in ("nvcc", "host compiler", "CUTLASS", "cuobjdump")}
    host = find_host(tried["host compiler"])
    compiler = _find_nvcc(nvcc, host, tried["nvcc"])
    headers = find_cutlass(cutlass, tried["CUTLASS"])
    cuobjdump = _find_cuobjdump(compiler[0], compiler[3], tried["cuobjdump"]) if compiler else None
    misled = headers is None and bool(cutlass is not None or os.environ.get("CUTLASS_PATH"))
    if compiler is None or host is None or cuobjdump is None or misled:
        hints = {
            "nvcc": INSTALL_HINT if nvcc is None else _OPTION_HINT.format("--nvcc", "an nvcc"),
            "host compiler": host_hint(),
            "CUTLASS": _OPTION_HINT.format("CUTLASS_PATH" if cutlass is None else "--cutlass", "its headers"),
            "cuobjdump": INSTALL_HINT,
        }
        present = {
            "nvcc": compiler is not None,
            "host compiler": host is not None,
            "CUTLASS": not misled,
            "cuobjdump": cuobjdump is not None or compiler is None,  # it is looked for beside nvcc
        }
        missing = [name for name in present if not present[name]]
        report = "\n".join(f"  {line}" for name in missing for line in tried[name])
        raise ToolchainError(
            f"no usable {' and no usable '.join(missing)}; tried\n{report}",
            hint="\n".join(dict.fromkeys(hints[name] for name in missing)),
        )
    path, origin, version, root, lib = compiler
    host_version, machine = host_facts(host)
    log.debug("nvcc %s from %s; CUTLASS headers at %s", path, origin, headers)
    return NvccToolchain(
        nvcc=path,
        nvcc_origin=origin,
        nvcc_version=version,
        root=root,
        lib=lib,
        host=host,
        host_version=host_version,
        machine=machine,
        cutlass=headers,
        cutlass_version="" if headers is None else headers_release(headers),
        cuobjdump=cuobjdump,
    )


def _find_nvcc(
    explicit: str | Path | None, host: tuple[str, ...] | None, tried: list[str]
) -> tuple[Path, str, str, Path, Path] | None:
    for origin, candidate in _nvcc_candidates(explicit):
        if candidate is None:
            tried.append(f"nvcc from {origin}: not there")
            continue
        path = Path(candidate).absolute()  # not resolved: nvcc finds its parts beside its own name
        if not os.access(path, os.X_OK) or path.is_dir():
            tried.append(f"nvcc from {origin}: {path} is not an executable file")
            continue
        try:
            version = run([str(path), "--version"])
        except ToolchainError as error:
            tried.append(f"nvcc from {origin}: {error.message}")
            continue
        release = re.search(r"release (\d+)\.(\d+)", version)
        if release is None or (int(release[1]), int(release[2])) < MINIMUM_NVCC:
            need = ".".join(map(str, MINIMUM_NVCC))
            tried.append(
                f"nvcc from {origin}: {path} is {release[0] if release else 'unknown'}, needs {need} or newer"
            )
            continue
        root = _toolkit_root(path, host)
        lib = root and _library_folder(root)
        if root is None or lib is None:
            tried.append(
                f"nvcc from {origin}: {path} has no cuda_runtime_api.h or no libcudart_static.a with it"
            )
            continue
        lines = version.strip().splitlines()
        return path, origin, "\n".join(lines[-2:]), root, lib
    return None


def _nvcc_candidates(explicit: str | Path | None) -> Iterator[tuple[str, Path | None]]:
    if explicit is not None:
        named = shutil.which(str(explicit))
        yield "--nvcc", Path(named or explicit)
        return
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    yield ("CUDA_HOME", Path(home, "bin", "nvcc")) if home else ("CUDA_HOME (not set)", None)
    on_path = shutil.which("nvcc")
    yield "PATH", Path(on_path) if on_path else None
    roots = [
        folder / "cu13" for folder in package_folders("nvidia") if (folder / "cu13" / "bin" / "nvcc").exists()
    ]
    yield "pip wheels", roots[0] / "bin" / "nvcc" if roots else None


def cuda_release() -> str | None:
    """The CUDA release of the headers beside the nvcc that a build would take, as "13.0"; starts no process.

    None where there is no nvcc, or none of them has headers beside it (a wrapper script).
    """
    for _, nvcc in _nvcc_candidates(None):
        if nvcc is None or not os.access(nvcc, os.X_OK):
            continue
        for root in (nvcc.absolute().parent.parent, nvcc.resolve().parent.parent):
            stated = re.search(r"CUDART_VERSION=(\d+)", _headers_version(root / "include"))
            if stated:
                return f"{int(stated[1]) // 1000}.{int(stated[1]) % 1000 // 10}"
    return None


def _toolkit_root(nvcc: Path, host: tuple[str, ...] | None) -> Path | None:
    """The folder with include/cuda_runtime_api.h. nvcc may be a wrapper script, so it is asked too."""
    ccbin = [f"-ccbin={host[0]}"] if host else []
    output = run([str(nvcc), *ccbin, "--dryrun", "x.cu"], check=False)
    top = re.search(r"^#\$ TOP=(.+)$", output, re.MULTILINE)
    for root in (nvcc.parent.parent, Path(top[1].strip()) if top else None, nvcc.resolve().parent.parent):
        if root is not None and (root / "include" / "cuda_runtime_api.h").is_file():
            return root.resolve()
    return None


def _library_folder(root: Path) -> Path | None:
    places = [root / "lib64", root / "lib", *sorted((root / "targets").glob("*-linux/lib"))]
    return next((place for place in places if (place / "libcudart_static.a").is_file()), None)


def _find_cuobjdump(nvcc: Path, root: Path, tried: list[str]) -> Path | None:
    """cuobjdump needs nvdisasm, beside it or on PATH."""
    beside = [nvcc.parent / "cuobjdump", root / "bin" / "cuobjdump"]
    on_path = shutil.which("cuobjdump")
    wheels = [folder / "cu13" / "bin" / "cuobjdump" for folder in package_folders("nvidia")]
    for candidate in [*beside, *([Path(on_path)] if on_path else []), *wheels]:
        if os.access(candidate, os.X_OK):
            if (candidate.resolve().parent / "nvdisasm").exists() or shutil.which("nvdisasm"):
                return candidate
            tried.append(f"cuobjdump: {candidate} has no nvdisasm beside it")
        else:
            tried.append(f"cuobjdump: no {candidate}")
    return None


def _headers_version(include: Path) -> str:
    """The releases of the CUDA runtime's headers and of CCCL, which come in wheels of their own."""
    version = []
    for name, macro in (
        ("cuda_runtime_api.h", "CUDART_VERSION"),
        ("cccl/cuda/std/__cccl/version.h", "CCCL_VERSION"),
    ):
        path = include / name
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        match = re.search(rf"#\s*define\s+{macro}\s+(\S+)", text)
        version.append(f"{macro}={match[1] if match else 'unknown'}")
    return " ".join(version)
