"""Which kernels a GPU has run, by the committed records; asked without torch."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path

from tilewright.libraries.registry import Registry
from tilewright_generator import records

_RECORDS = Path(__file__).parents[2] / "benchmarks" / "results" / "gpu"
_GENERATIONS = {"sm_9": "Hopper", "sm_10": "Blackwell", "sm_11": "Blackwell", "sm_12": "Blackwell"}


@functools.cache
def _never_run() -> dict[str, str]:
    """The kernels that have no row in any record, with the generation of GPUs that would run them."""
    known = {row["name"] for path in _RECORDS.glob("*.json") for row in records.read(path)["kernels"]}
    tables = Registry().tables.values()
    return {name: _generation(table.arch(name)) for table in tables for name in table if name not in known}


def _generation(arch: str) -> str:
    return next((word for prefix, word in _GENERATIONS.items() if arch.startswith(prefix)), arch)


def why_never_run(kernel: str) -> str | None:
    """What a skip says of a kernel that no GPU has run."""
    generation = _never_run().get(kernel)
    return None if generation is None else f"no {generation} has run this kernel"


def header() -> str:
    """What a run of the tests says first."""
    counts = Counter(_never_run().values())
    said = ", ".join(f"no {generation} has run {count} kernels" for generation, count in counts.items())
    return said or "every kernel has been run on a GPU"
