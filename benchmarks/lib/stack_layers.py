"""The layers of `shapes/stacks.yaml`, and the numbers of rows that they are timed with. Needs no torch."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml
from benchmarks.lib.gemm_problems import log_uniform

SHAPES = Path(__file__).parents[1] / "shapes" / "stacks.yaml"
DTYPES = ("fp8", "bf16")
ROWS = (1, 7, 48, 128, 500, 1900)
MOST_RANDOM_ROWS = 4096


class Product(NamedTuple):
    """Extents of a weight matrix [n, k]."""

    n: int
    k: int


class Layer(NamedTuple):
    """The four products of one layer, in their order."""

    qkv: Product
    out: Product
    gate_up: Product
    down: Product

    @property
    def width(self) -> int:
        """Columns of the residual stream."""
        return self.qkv.k

    def fault(self) -> str:
        """Why the products cannot follow one another; empty if they can."""
        if {self.out.n, self.gate_up.k, self.down.n} != {self.width}:
            return f"qkv reads {self.width} columns; expected the same of out.n, gate_up.k and down.n"
        if self.out.k > self.qkv.n:
            return f"out reads {self.out.k} columns, qkv writes {self.qkv.n}"
        if self.gate_up.n != 2 * self.down.k:
            return (
                f"gate_up writes {self.gate_up.n} columns; expected twice the {self.down.k} that down reads"
            )
        return ""


def models(dtype: str, path: Path = SHAPES) -> dict[str, Layer]:
    """A layer of each model of a type. Raises ValueError where products cannot follow one another."""
    layers = {}
    for model, products in yaml.safe_load(path.read_text(encoding="utf-8"))[dtype].items():
        layers[model] = Layer(**{role: Product(*extents) for role, extents in products.items()})
        if layers[model].fault():
            raise ValueError(f"{path.name}, {dtype}, {model}: {layers[model].fault()}")
    return layers


def random_rows(count: int, seed: int) -> list[int]:
    """Numbers of rows, log-uniform from 1 to 4096, none a power of two, all different, in order."""
    draw, rows = random.Random(seed), set[int]()
    while len(rows) < count:
        m = log_uniform(draw, 1, MOST_RANDOM_ROWS)
        if m & (m - 1):
            rows.add(m)
    return sorted(rows)


def cases(dtypes: list[str], names: list[str], rows: list[int]) -> Iterator[tuple[str, str, Layer, int]]:
    """(dtype, model, layer, m) of all models, or of those whose name contains one of `names`."""
    for dtype in dtypes:
        for model, layer in models(dtype).items():
            if not names or any(name in model for name in names):
                for m in rows:
                    yield dtype, model, layer, m
