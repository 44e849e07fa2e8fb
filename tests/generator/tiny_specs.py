"""Specs of the tiny family as texts: their kernels, and their faults."""

from __future__ import annotations

from tilewright_generator import load, names, spec
from tilewright_generator.errors import Fault, Faults, SpecError
from tilewright_generator.expand import Expansion, Kernel, expand

ROWS = "256 rows > 128 (limit: the hardware's)"
NEAR = "; legal nearby: tile"
AREA = "65536 elements > 32768 (limit: ours)"
HEAD = "family: tiny\narch: sm_90a\ndtype: bf16\n"


def read(text: str) -> tuple[Expansion | None, list[Fault]]:
    faults = Faults()
    parsed = spec.parse(load.loads(text.encode(), "specs/s.yaml", faults), "specs/s.yaml", faults)
    expansion = expand(parsed, faults) if parsed else None
    if expansion:
        names.check([expansion], faults)
    try:
        faults.raise_if_any()
    except SpecError as error:
        return expansion, error.faults
    return expansion, []


def kernels(text: str) -> tuple[Kernel, ...]:
    expansion, faults = read(text)
    assert faults == []
    assert expansion is not None
    return expansion.kernels


def faults(text: str) -> list[str]:
    """Positions without the file, and messages."""
    return [str(problem).removeprefix("specs/s.yaml:") for problem in read(text)[1]]
