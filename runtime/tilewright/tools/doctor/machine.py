"""Checks of the machine: variables, compilers, packages, GPU and driver."""

from __future__ import annotations

import ctypes
import difflib
import importlib.metadata
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright import bundle
from tilewright.architectures import device as devices
from tilewright.architectures import routing
from tilewright.base import paths, reading, sets
from tilewright.base.logs import LEVELS as LOG_LEVELS
from tilewright.base.variables import VALUES
from tilewright.compile.compiler_cache import words_of
from tilewright.errors import TilewrightError, ToolchainError
from tilewright.libraries.builds import jit_allowed
from tilewright.tools.doctor.findings import OK, PROBLEM, WARNING, Findings

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.compile.nvcc.toolchain import NvccToolchain
    from tilewright.context import Context

# All variables that Tilewright reads, including those of other programs.
VARIABLES = (
    "TILEWRIGHT_BATCH_INVARIANT", "TILEWRIGHT_BUNDLE", "TILEWRIGHT_CACHE", "TILEWRIGHT_DEBUG",
    "TILEWRIGHT_GENERATED", "TILEWRIGHT_JIT", "TILEWRIGHT_LAUNCHER", "TILEWRIGHT_LIBRARIES",
    "TILEWRIGHT_LOG", "TILEWRIGHT_RECORD", "TILEWRIGHT_TRUST_CACHE", "TILEWRIGHT_TUNED",
    "TILEWRIGHT_VLLM",
    "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUTLASS_PATH", "CXX",
)  # fmt: skip

# What is said of other values than those in `VALUES`.
_EXPECTED = {
    "TILEWRIGHT_BATCH_INVARIANT": "expected 0 or 1",
    "TILEWRIGHT_JIT": "expected 0 (never compile), 1 (compile the best kernel), "
    "or lazy (prefer a built kernel)",
}


@dataclass(frozen=True)
class Machine:
    """The facts that several checks use."""

    context: Context
    device: DeviceProperties | None  # None if there is no GPU, or no torch to ask
    described: bool
    toolchain: NvccToolchain | None
    lacking: ToolchainError | None  # why there is no toolchain

    @classmethod
    def examine(cls, context: Context, device: DeviceProperties | None) -> Machine:
        from tilewright.compile.nvcc.toolchain import find_toolchain  # noqa: PLC0415

        described = device is not None
        try:
            toolchain, lacking = find_toolchain(), None
        except ToolchainError as error:
            toolchain, lacking = None, error
        return cls(context, device or devices.present(), described, toolchain, lacking)


def environment(machine: Machine) -> Findings:
    """Checks variables that are set, for unknown names and impossible values."""
    for name in sorted(name for name in os.environ if name.startswith("TILEWRIGHT_") or name in VARIABLES):
        value = os.environ[name]
        wrong = _wrong_value(name, value)
        yield (WARNING if wrong else OK, f"{name}={value}{wrong and f': {wrong}'}", _mend_value(name, wrong))
    if not any(name in os.environ for name in VARIABLES):
        yield OK, "no variable is set", ""


def _wrong_value(name: str, value: str) -> str:
    if name not in VARIABLES:
        return "Tilewright reads no such variable"
    if value and name in VALUES and value not in VALUES[name]:
        return _EXPECTED[name]
    if name == "TILEWRIGHT_TRUST_CACHE" and value not in ("1", ""):
        return "only 1 turns the check off"
    if name == "TILEWRIGHT_VLLM" and value not in ("first", ""):
        return "only first puts our kernels before vLLM's"
    if name == sets.VARIABLE:
        return _without_folder(path for path in paths.listed(name) if not sets.is_name(path))
    if name == "TILEWRIGHT_BUNDLE" and value:
        try:
            bundle.load(paths.expanded(value))
        except TilewrightError as error:
            return error.message
    if name in ("TILEWRIGHT_LIBRARIES", paths.TUNED):
        return _without_folder(paths.listed(name))
    if name == "TILEWRIGHT_LOG" and value and value.partition(":")[0].lower() not in LOG_LEVELS:
        return f"the level must be one of {', '.join(LOG_LEVELS)}"
    if name == "TILEWRIGHT_LAUNCHER":
        try:
            words = words_of(value, name)
        except ToolchainError:
            return "a quote is left open"
        return "there is no such program" if words and shutil.which(words[0]) is None else ""
    if name in ("CUDA_HOME", "CUDA_PATH") and value and not Path(value, "bin", "nvcc").exists():
        return "there is no bin/nvcc in it"
    return ""


def _without_folder(paths: Iterable[str]) -> str:
    lacking = [path for path in paths if not Path(path).is_dir()]
    return f"there is no folder {lacking[0]}" if lacking else ""


def _mend_value(name: str, wrong: str) -> str:
    near = difflib.get_close_matches(name, VARIABLES, n=1)
    if wrong and name not in VARIABLES and near:
        return f"Did you mean {near[0]}?"
    return f"Unset {name}, or mend its value." if wrong else ""


def toolchain(machine: Machine) -> Findings:
    """Checks the compilers, and names their paths."""
    from tilewright.compile.runner import find_ninja  # noqa: PLC0415

    toolchain = machine.toolchain
    if toolchain is None:
        assert machine.lacking is not None
        yield _unless_prebuilt(machine), machine.lacking.message, machine.lacking.hint or ""
    else:
        yield OK, f"nvcc {toolchain.release}: {toolchain.nvcc} (from {toolchain.nvcc_origin})", ""
        yield OK, f"host compiler: {' '.join(toolchain.host)}: {toolchain.host_version.splitlines()[0]}", ""
        yield OK, f"cuobjdump: {toolchain.cuobjdump}", ""
        yield from _cutlass(machine, toolchain)
        yield from _cute_dsl(machine)
    try:
        yield OK, f"ninja: {find_ninja()}", ""
    except ToolchainError as error:
        yield _unless_prebuilt(machine), error.message, error.hint or ""


def _cutlass(machine: Machine, toolchain: NvccToolchain) -> Findings:
    from tilewright.compile.nvcc.cutlass import satisfies  # noqa: PLC0415

    if toolchain.cutlass is None:
        yield _without_cutlass(machine)
        return
    yield OK, f"CUTLASS {toolchain.cutlass_version or 'of no known release'}: {toolchain.cutlass}", ""
    registry, needs = machine.context.registry, dict[str, int]()
    for table in registry.tables.values():
        for record in table.values():
            if not satisfies(toolchain.cutlass_version, record.cutlass) and not registry.is_built(record):
                needs[record.cutlass] = needs.get(record.cutlass, 0) + 1
    for release, count in sorted(needs.items()):
        mend = (
            f"CUTLASS_PATH, or `tilewright build --cutlass`, names headers of {release} or newer; "
            "`tilewright toolchain` lists those of this machine."
        )
        yield WARNING, f"{count} kernels need CUTLASS {release} and cannot be built here", mend


def _without_cutlass(machine: Machine) -> tuple[str, str, str]:
    """Most kernels include none of its headers: that they are not here is no fault."""
    from tilewright.compile.keys import HeaderSet  # noqa: PLC0415

    registry, headers = machine.context.registry, HeaderSet(paths.include_dir())
    count = sum(
        headers.cutlass(reading.contents(table.source(record))) and not registry.is_built(record)
        for table in registry.tables.values()
        for record in table.values()
    )
    skipped = f"{count} kernels are skipped by builds: pip install nvidia-cutlass, or set CUTLASS_PATH"
    return OK, f"no CUTLASS headers; {skipped if count else 'no kernel still to build includes them'}", ""


def _cute_dsl(machine: Machine) -> Findings:
    """CuTe-DSL is an extra: that it is not there is no fault."""
    from tilewright.compile.cute_dsl import compiler, installed  # noqa: PLC0415

    if not (reason := installed.lacking()):
        yield OK, f"CuTe-DSL {installed.RELEASE}", ""
        return
    registry, name = machine.context.registry, compiler.CuteDsl.name
    tables = [table for table in registry.tables.values() if table.compiler == name]
    if count := sum(not registry.is_built(record) for table in tables for record in table.values()):
        yield OK, f"{count} kernels are skipped by builds: each {reason}", ""


def _unless_prebuilt(machine: Machine) -> str:
    """The level of a missing compiler: a problem if nothing is built and a call would compile, else a
    warning."""
    registry, device = machine.context.registry, machine.device
    records = [record for table in registry.tables.values() for record in table.values()]
    if device is None or machine.described or not jit_allowed():
        return WARNING if any(map(registry.is_built, records)) else PROBLEM
    here = [record for record in records if routing.runs_on(record.arch, device.capability)]
    return WARNING if here and all(map(registry.is_built, here)) else PROBLEM


def packages(machine: Machine) -> Findings:
    """Checks torch, whose tensors the ops take, and TVM-FFI, which loads libraries. Imports neither."""
    for name, level, mend in (
        ("apache-tvm-ffi", PROBLEM, "pip install 'apache-tvm-ffi>=0.1.6,<0.2'"),
        ("torch", WARNING, "The ops on torch's tensors need it: pip install torch"),
    ):
        try:
            yield OK, f"{name} {importlib.metadata.version(name)}", ""
        except importlib.metadata.PackageNotFoundError:
            yield level, f"{name} is not installed", mend


def gpu(machine: Machine) -> Findings:
    """Checks the GPUs, and whether the driver runs what was compiled."""
    driver, device = devices.driver(), machine.device
    if machine.described:
        assert device is not None
        yield OK, f"as if here were {device.name}, {routing.describe(device.capability)}", ""
    elif device is None and driver is None:
        yield WARNING, "no GPU: there is no NVIDIA driver", "Kernels can be built here, and run elsewhere."
    elif device is None:
        mend = "nvidia-smi says what the driver sees; CUDA_VISIBLE_DEVICES may hide it."
        yield PROBLEM, f"driver {driver}, and torch is not there or finds no GPU", mend
    else:
        for properties in _gpus():
            text = f"{properties.name}, {routing.describe(properties.capability)}, {properties.sm_count} SMs"
            yield OK, text, ""
    if driver is not None:
        yield from _driver(machine, driver)


def _gpus() -> list[DeviceProperties]:
    import torch  # noqa: PLC0415 (a GPU was found through it)

    return [devices.read(index) for index in range(torch.cuda.device_count())]


def _driver(machine: Machine, driver: str) -> Findings:
    """CUDA's rule of minor-version compatibility: a driver runs what any release of its major compiled.

    Libraries hold machine code for their GPU and link the CUDA runtime statically, so nothing is compiled by
    the driver (https://docs.nvidia.com/deploy/cuda-compatibility/).
    """
    supported = driver_cuda()
    if supported is None:
        yield WARNING, f"driver {driver}; libcuda.so.1, which comes with it, does not load", "Reinstall it."
        return
    yield OK, f"driver {driver}, for CUDA {supported[0]}.{supported[1]}", ""
    for release in sorted({toolchain.get("nvcc", "") for toolchain in _toolchains(machine)}):
        if release.partition(".")[0].isdigit() and int(release.partition(".")[0]) > supported[0]:
            mend = "Install a newer driver, or build the kernels with an older CUDA."
            yield PROBLEM, f"libraries here were built with CUDA {release}, which needs a newer driver", mend


def driver_cuda() -> tuple[int, int] | None:
    """The newest CUDA release that the driver supports, as (13, 0); None if there is no driver."""
    version = ctypes.c_int()
    try:
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version)) != 0:
            return None
    except (OSError, AttributeError):
        return None
    return version.value // 1000, version.value % 1000 // 10


def _toolchains(machine: Machine) -> list[dict[str, str]]:
    from tilewright.compile.prebuilt import all_libraries  # noqa: PLC0415

    modules = dict.fromkeys(table.module for table in machine.context.registry.tables.values())
    return [dict(library.toolchain) for module in modules for library in all_libraries(module)]
