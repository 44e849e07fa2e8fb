"""The installed CuTe-DSL. It is never imported here: that takes a second, and only a unit needs it."""

from __future__ import annotations

from importlib.util import find_spec

from tilewright.compile.keys import digest

RELEASE = "4.8.1"  # its interface changes from release to release, so one alone is accepted
INSTALL_HINT = "pip install 'tilewright[cutedsl]'"
_PACKAGES = (
    "nvidia-cutlass-dsl",
    "nvidia-cutlass-dsl-libs-base",
    "nvidia-cutlass-dsl-libs-core",
    "nvidia-cutlass-dsl-libs-cu12",
)


def release() -> str:
    """The installed release; empty if CuTe-DSL is not installed."""
    from importlib import metadata  # noqa: PLC0415 (it takes longer to import than all of compile/)

    try:
        return metadata.version(_PACKAGES[0])
    except metadata.PackageNotFoundError:
        return ""


def lacking() -> str:
    """Why kernels in CuTe-DSL cannot be compiled here; empty if they can."""
    installed = release()
    if not installed:
        actual = "it is not installed"
    elif installed != RELEASE:
        actual = f"release {installed} is installed"
    elif find_spec("cutlass") is None:
        actual = "its module cutlass is not on Python's path"
    else:
        return ""
    return f"needs CuTe-DSL {RELEASE}, and {actual}: {INSTALL_HINT}"


def content() -> str:
    """A digest of the installed files, by what their packages record of them."""
    from importlib import metadata  # noqa: PLC0415

    records = []
    for package in _PACKAGES:
        try:
            distribution = metadata.distribution(package)
        except metadata.PackageNotFoundError:
            continue
        lines = (distribution.read_text("RECORD") or "").splitlines()
        # Not the bytecode, which is written when a package is installed or used, and holds times.
        records += sorted(line for line in lines if "__pycache__" not in line and "dist-info" not in line)
    return digest("CuTe-DSL", *records)
