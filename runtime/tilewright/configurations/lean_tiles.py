"""How kernels with a mainloop of ours divide a tile, and the shared memory that they take for it, as
`sm90/pipeline.hpp` and `sm90/subtile.hpp` lay it out. Every generated file asserts the total against the
compiler's.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from tilewright.configurations import shared, sources
from tilewright.configurations.shapes import Tile, round_up
from tilewright.formats.types import bytes_of

BOX_BYTES = 128  # of k: a row of a box of TMA, under the 128-byte swizzle
BOX_ROWS = 64  # of an operand that does not have k contiguous, in a box of TMA
MOST_STAGES = 16  # more in flight than any load takes


def fitted(
    stages: shared.Stages,
    stage: int,
    beside: int,
    *,
    unit: int = 1,
    most: int = MOST_STAGES,
    room: int = shared.HOPPER_SHARED_MEMORY,
) -> shared.Memory:
    """How many stages of `stage` bytes a kernel has, and its shared memory, of which `beside` bytes hold no
    stages. "auto" takes the stages that fit into `room` bytes: a multiple of `unit`, and at most `most`. The
    memory is that of two stages where fewer fit."""
    fitting = min(most, (room - beside) // stage)
    count = fitting - fitting % unit if stages == "auto" else stages
    return shared.Memory(count, max(count, 2) * stage + beside)


def misfit_stages(tile: object, memory: shared.Memory) -> str | None:
    """None if a thread block of Hopper holds two stages or more of a tile, else the reason."""
    if memory.total <= shared.HOPPER_SHARED_MEMORY and memory.stages >= 2:
        return None
    return f"two stages or more of {tile} do not fit into {shared.HOPPER_SHARED_MEMORY:,} bytes"


class Config(Protocol):
    """A configuration of a product whose stages hold boxes of both operands."""

    @property
    def a(self) -> str: ...
    @property
    def tile(self) -> Tile: ...


def boxes(config: Config) -> int:
    """Boxes of k in a stage."""
    return config.tile.k * bytes_of(config.a) // BOX_BYTES


def operand_bytes(config: Config) -> int:
    """Bytes of A and B that one stage holds: whole boxes of a B that does not have k contiguous."""
    _, k_contiguous = sources.k_contiguous(config)
    columns = config.tile.n if k_contiguous else round_up(config.tile.n, BOX_ROWS)
    return (config.tile.m + columns) * boxes(config) * BOX_BYTES


def epilogue_through_smem(config: Config, stages: int) -> bool:
    """Whether the sums of a tile fit into the memory of `stages` stages, through which a split k and the
    epilogue pass them."""
    return 4 * config.tile.m * config.tile.n <= stages * operand_bytes(config)


def variables(config: Any) -> dict[str, Any]:
    """The variables of templates: operands as the kernel sees them, and its tile."""
    a, b = sources.kernel_operands(config)
    k_a, k_b = sources.k_contiguous(config)
    return {
        "element_a": a.capitalize(),
        "element_b": b.capitalize(),
        "element_d": config.d.capitalize(),
        "mn_major_a": not k_a,
        "mn_major_b": not k_b,
        "swap_ab": config.swap_ab,
        "tile_m": config.tile.m,
        "tile_n": config.tile.n,
        "boxes": boxes(config),
    }


class Warpgroups(NamedTuple):
    """How the consumer warpgroups divide a tile."""

    consumers: int
    rows: int  # of each, in units of 64
    columns: int


def cooperative(m: int, n: int) -> Warpgroups:
    """Divides a tile by rows if each half is a multiple of 64 rows, else by columns."""
    if m == 64:
        return Warpgroups(1, 1, n)
    return Warpgroups(2, m // 128, n) if m % 128 == 0 else Warpgroups(2, m // 64, n // 2)


def by_mma(m: int, n: int, *, boxed: bool) -> Warpgroups:
    """Divides a tile for kernels of mma.sync (`Cooperative` in sm120/warpgroups.hpp).

    boxed: the tile's columns come in boxes of 64.
    """
    slices = m // 64
    if n % 16 == 0 and (slices % 2 or n > m // 4) and (not boxed or n == 64 or n % 128 == 0):
        return Warpgroups(2, slices, n // 2)
    return Warpgroups(2, slices // 2, n) if slices % 2 == 0 else Warpgroups(1, slices, n)


def subtile_columns(columns: int, swapped: bool) -> int:
    """Columns that the epilogue stores at a time (`subtile_columns` in sm90/subtile.hpp)."""
    if swapped:
        return next((quads * 8 for quads in (4, 3, 5, 2, 6, 7) if columns // 8 % quads == 0), columns)
    if columns % 32 == 0:
        return 64 if columns % 64 == 0 else 32
    units = next(units for units in range(15, 0, -2) if columns // 8 % units == 0)
    if units > 1:
        return units * 8
    return 16 if columns % 16 == 0 else 8


def shared_subtile_columns(columns: int, swapped: bool, bits: int) -> int:
    """The same where the k ranges of a split share the subtiles (`shared_subtile_columns` there)."""
    if bits == 8 and not swapped:
        return 32
    wished = (16 if swapped else 32, 24, 16)
    return next((width for width in wished if columns > width and columns % width == 0), 8)


def store_buffers(warpgroups: Warpgroups, swapped: bool, most: int = 2) -> int:
    """Subtiles of a warpgroup that are in shared memory at once."""
    _, rows, columns = warpgroups
    subtile = subtile_columns(columns, swapped)
    return min(most, rows * (columns // subtile)) if not swapped or subtile <= 56 else 1


def misfit_subtiles(columns: int, swapped: bool) -> str | None:
    """None if the columns of a warpgroup divide into epilogue subtiles of at least 16, else the reason. A row
    of a subtile is an odd number of 16-byte units, or 2, 4 or 8 of them; rows of one unit store slowly."""
    if columns > 16 and subtile_columns(columns, swapped) == 8:
        return f"{columns} columns of a warpgroup divide only into subtiles of 8, expected 16 or more"
    return None


def store_bytes(warpgroups: Warpgroups, bits: int, swapped: bool, most_buffers: int = 2) -> int:
    """Bytes of the buffers from which TMA stores elements of `bits` bits."""
    if bits == 32:
        return 0  # threads store those
    buffers = store_buffers(warpgroups, swapped, most_buffers)
    return warpgroups.consumers * buffers * subtile_columns(warpgroups.columns, swapped) * 64 * bits // 8
