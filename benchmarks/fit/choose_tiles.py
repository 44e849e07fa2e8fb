"""Chooses the tiles of specs/sm90_gemm_lean.yaml from times of many (lean_times.py), on any machine.

    python -m benchmarks.fit.choose_tiles times_bf16.csv.bz2 times_fp8.csv.bz2

Tiles are taken one after the other. Each time, the tile is taken that most improves the geomean, over all
problems, of the fastest tactic; this ends when the next tile would gain less than 0.01 %. (Of 195 tiles, 143
are within 1 % of the fastest for some problem; 50 tiles together are as good for all problems.) For each size
of elements, the program prints the tiles of each group as the spec lists them, and the cost of leaving out
the others: the fastest tactic of the tiles that are kept, over the fastest of all.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.lib.times_file import Measured, read

from tilewright.formats.types import bytes_of

LEAST_GAIN = 1e-4  # of a tile that is taken: of the geomean
LACKING = (
    2.0  # times the fastest, that a problem takes which none of the kernels can compute, or was timed for
)
# What a group of the spec is called, by how its kernels' names go on after the tile.
GROUPS = {
    "lean_coop": "wide",
    "lean_pingpong": "turns",
    "lean_coop_swap": "swapped",
    "lean_pingpong_swap": "swapped_turns",
}


def group_of(name: str) -> tuple[str, tuple[int, ...]] | None:
    """The spec's group of a kernel, and its tile; None of one that has no tile to choose."""
    _, _, rest = name.partition("_tn_")
    tile, _, kind = rest.partition("_")
    group = GROUPS.get(kind.replace("_fastacc", ""))
    return group and (group, tuple(map(int, tile.split("x"))))


def fastest_by_kernel(measured: Measured) -> dict[str, float]:
    """Seconds of the best tactic of each kernel that has a tile to choose."""
    fastest: dict[str, float] = {}
    for tactic, seconds in measured.seconds.items():
        if group_of(tactic.kernel):
            fastest[tactic.kernel] = min(seconds, fastest.get(tactic.kernel, math.inf))
    return fastest


def kept(problems: Sequence[Mapping[str, float]]) -> list[str]:
    """Kernels in the order in which they are taken."""
    names = sorted({name for kernels in problems for name in kernels})
    behind = {
        name: [math.log(kernels.get(name, LACKING * best) / best) for kernels, best in with_best(problems)]
        for name in names
    }
    taken: list[str] = []
    current = [math.log(LACKING)] * len(problems)
    while names:
        lost = {name: sum(map(min, current, behind[name])) for name in names}
        best = min(names, key=lost.__getitem__)
        if sum(current) - lost[best] < LEAST_GAIN * len(problems):
            break
        current = list(map(min, current, behind[best]))
        names.remove(best)
        taken.append(best)
    return taken


def with_best(problems: Iterable[Mapping[str, float]]) -> list[tuple[Mapping[str, float], float]]:
    return [(kernels, min(kernels.values())) for kernels in problems]


def losses(problems: Iterable[Mapping[str, float]], names: Collection[str]) -> list[float]:
    """The fastest of the named kernels over the fastest of all, of each problem."""
    return [
        min((seconds for name, seconds in kernels.items() if name in names), default=LACKING * best) / best
        for kernels, best in with_best(problems)
    ]


def groups(names: Iterable[str]) -> dict[str, list[str]]:
    """Tiles by the spec's group."""
    tiles_of: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    for group, tile in filter(None, map(group_of, names)):
        tiles_of[group].append(tile)
    return {group: ["x".join(map(str, tile)) for tile in sorted(tiles)] for group, tiles in tiles_of.items()}


def report(size: int, measured: Sequence[Measured]) -> None:
    problems = [fastest_by_kernel(times) for times in measured]
    every = {name for kernels in problems for name in kernels}
    chosen = kept(problems)
    lost = losses(problems, chosen)
    geomean = math.exp(sum(map(math.log, lost)) / len(lost))
    print(
        f"# {size * 8} bits: {len(problems)} problems, {len(chosen)} of {len(every)} tiles that were tried;"
    )
    print(f"# without the others {geomean - 1:.2%} slower in geomean, {max(lost) - 1:.1%} at worst")
    for group in GROUPS.values():
        tiles = groups(chosen).get(group, [])
        print(f"{group}{size * 8}: [{', '.join(tiles)}]")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("times", type=Path, nargs="+", help="files of lean_times.py")
    measured = read(parser.parse_args().times)
    for size in sorted({bytes_of(times.problem.a) for times in measured}, reverse=True):
        report(size, [times for times in measured if bytes_of(times.problem.a) == size])


if __name__ == "__main__":
    main()
