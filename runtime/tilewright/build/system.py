"""Short commands, and the folders of installed packages."""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from tilewright.errors import ToolchainError


@lru_cache
def package_folders(name: str) -> tuple[Path, ...]:
    """The folders of an importable package, without importing it."""
    spec = importlib.util.find_spec(name)
    return tuple(Path(folder) for folder in (spec.submodule_search_locations or ())) if spec else ()


def run(command: Sequence[str], *, check: bool = True) -> str:
    """stdout and stderr of a short command. Raises ToolchainError where it cannot run or fails."""
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=120,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{shlex.join(command)}: {error}") from None
    if check and result.returncode != 0:
        raise ToolchainError(
            f"{shlex.join(command)} exits {result.returncode}: {result.stdout.strip()[:500]}"
        )
    return result.stdout


def tvm_ffi_folder() -> Path:
    """The tvm_ffi package's folder (include/, lib/), found without importing it: that may import torch."""
    folders = package_folders("tvm_ffi")
    if not folders:
        raise ToolchainError("apache-tvm-ffi is not installed", hint="pip install apache-tvm-ffi")
    return folders[0]
