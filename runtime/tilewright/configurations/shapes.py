"""Tile and cluster shapes: `128x256x64` in specs, names and messages; tuples in Python; lists in JSON."""

from typing import NamedTuple


def round_up(value: int, multiple: int) -> int:
    """The least multiple that is not less than `value`."""
    return -(-value // multiple) * multiple


class Tile(NamedTuple):
    """A tile of the output and the depth of one mainloop stage, in elements: MxNxK."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self[0]}x{self[1]}x{self[2]}"


class Cluster(NamedTuple):
    """Thread blocks that share their loads, along M and N of the output: MxN."""

    m: int
    n: int

    def __str__(self) -> str:
        return f"{self[0]}x{self[1]}"
