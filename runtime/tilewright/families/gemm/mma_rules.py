"""The architectures of each mainloop of `gemm`, and the rules for the mainloop of mma.sync alone."""

from __future__ import annotations

from tilewright.architectures.table import (
    MMA_SYNC,
    TCGEN05,
    TCGEN05_RUBIN,
    TCGEN05_ULTRA,
    WGMMA,
    has_tensor_core,
    of_target,
)
from tilewright.configurations.rule import HARDWARE, OURS, of_module, rule
from tilewright.configurations.sources import k_contiguous
from tilewright.families.gemm.config import MMA, GemmConfig
from tilewright.families.gemm.memory import warpgroups
from tilewright.formats.types import bits


# PTX ISA: "wgmma.mma_async requires sm_90a". stream_kernel.hpp would run on sm_12x, untimed.
@rule(HARDWARE, "mainloop arch", compiles="a stream kernel would run untimed; ptxas alone refuses wgmma")
def mainloop_arch(config: GemmConfig) -> str | None:
    """The mainloops cutlass, lean, stream and cute_dsl are for sm_90a; tcgen05 is for sm_100, sm_103 and
    sm_110; mma is for sm_12x, and for tests on sm_90a."""
    core = of_target(config.arch).tensor_core
    own = "tcgen05" if core in (TCGEN05, TCGEN05_ULTRA) else "mma"
    if config.mainloop == "tcgen05":
        legal, whose = own == "tcgen05", "sm_100, sm_103 and sm_110"
    elif config.mainloop == "mma":
        legal, whose = core in (MMA_SYNC, WGMMA), "sm_12x"
    else:
        legal, whose = has_tensor_core(config.arch, WGMMA), "sm_90a"
    if legal:
        return None
    instead = "" if core in (WGMMA, TCGEN05_RUBIN) else f"; {own} is for {config.arch}"
    return f"the mainloop {config.mainloop} is for {whose}, not {config.arch}{instead}"


# sm120/warpgroups.hpp: an odd number of 64-row slices is not halved, so the columns are. sm120/fragments.hpp:
# the columns of a warpgroup begin at a box of 64, or at its half. sm90/subtile.hpp: rows of FP8 are swizzled.
@rule(OURS, "tile schedule d layout", compiles="one warpgroup would have all rows", of=MMA)
def mma_columns(config: GemmConfig) -> str | None:
    """The columns of an mma kernel's tile divide among its warpgroups: of M 192 into halves; of FP8 stored
    with n along them into multiples of 32; of an operand without k contiguous into 32 or multiples of 64."""
    m, n, _ = config.tile
    consumers, _, columns = warpgroups(config)
    if m > 64 and consumers == 1:
        return f"two warpgroups divide the columns of a tile of {m} rows: N is a multiple of 16, not {n}"
    if bits(config.d) == 8 and not config.swap_ab and columns % 32:
        return f"{columns} columns of a warpgroup are not a multiple of 32, as rows of {config.d} are stored"
    if not k_contiguous(config)[1] and (n % 64 or (columns != 32 and columns % 64)):
        return (
            f"in layout {config.layout} the operand with the tile's columns comes in boxes of 64, which "
            f"{columns} columns of a warpgroup do not divide"
        )
    return None


RULES = of_module(__name__)
