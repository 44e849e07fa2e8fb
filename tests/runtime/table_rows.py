"""A row of a table of kernels, as the generator writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def table_row(
    name: str, config: Mapping[str, Any], facts: Mapping[str, Any], instructions: Sequence[str] = ()
) -> dict[str, Any]:
    return {
        "name": name,
        "source": f"{name}.cu",
        "sha256": f"sha of {name}",
        "arch": config["arch"],
        "defines": [],
        "instructions": [*instructions],
        "config": dict(config),
        "facts": dict(facts),
    }
