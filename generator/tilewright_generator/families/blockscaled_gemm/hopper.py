"""What is legal on sm_90a, and the shared memory as `blockscaled_gemm/sm90/config.hpp` lays it out.

Every generated file asserts the total against the compiler's.
"""

from __future__ import annotations

from functools import lru_cache

from tilewright.types import bits
from tilewright_generator.families.blockscaled_gemm.config import (
    BlockscaledGemmConfig,
    block,
    family,
)
from tilewright_generator.families.rule import OURS, rule
from tilewright_generator.shapes import round_up

_SM_BYTES = 228 * 1024
_RESERVED = 1024  # of each thread block, by the driver
_SCALE_ATOM = 512  # scale factors of 128 rows and 4 columns
_BARRIER = 8
_MOST_STAGES = 6  # beyond this many in flight nothing was gained
_AIM = {64: 3, 128: 2, 256: 1}  # thread blocks an SM, by tile M


# sm90/mainloop.hpp: a warpgroup has 64 rows of weights; wgmma's N is the tile's.
@rule(OURS, "tile")
def hopper_tile(config: BlockscaledGemmConfig) -> str | None:
    """On sm_90 tile M (along the caller's n) is 64, 128 or 256, N 8, 16, 32, 64 or 128."""
    if family(config) != "hopper":
        return None
    if config.tile.m not in (64, 128, 256):
        return f"tile M is 64, 128 or 256, not {config.tile.m}"
    if config.tile.n not in (8, 16, 32, 64, 128):
        return f"tile N is 8, 16, 32, 64 or 128, not {config.tile.n}"
    return None


# sm90/operand.hpp: a row of a stage is half a box of 128 bytes, or whole ones.
@rule(OURS, "tile")
def hopper_depth(config: BlockscaledGemmConfig) -> str | None:
    """On sm_90 tile K is 128, 256 or 512."""
    if family(config) == "hopper" and config.tile.k not in (128, 256, 512):
        return f"tile K is 128, 256 or 512, not {config.tile.k}"
    return None


# The fields are not read: thread blocks that split k make a cluster, at run time.
@rule(
    OURS,
    "cluster scheduler",
    compiles="the kernel would be the same: a tactic's splits decide its grid and cluster",
)
def hopper_grid(config: BlockscaledGemmConfig) -> str | None:
    """On sm_90 a spec gives cluster 1x1 and no stream-K: kernels split k over a cluster, at run time."""
    if family(config) != "hopper":
        return None
    if config.cluster != (1, 1):
        return f"kernels of sm_90 have cluster 1x1, not {config.cluster}"
    if config.scheduler == "stream_k":
        return "kernels of sm_90 split k over a cluster, at run time: they have no stream_k"
    return None


# The kernel decodes its A operand (many rows: weights) in registers, its B operand once a thread
# block.
@rule(OURS, "swap_ab", compiles="the kernel would be the same; swap_ab says what its tile's M lies along")
def hopper_swap(config: BlockscaledGemmConfig) -> str | None:
    """On sm_90 the operands are swapped: B's rows are the tile's rows."""
    if family(config) == "hopper" and not config.swap_ab:
        return "kernels of sm_90 are written for swapped operands: swap_ab is true"
    return None


@lru_cache(maxsize=1 << 12)
def memory(config: BlockscaledGemmConfig) -> tuple[int, int]:
    """Stages, and bytes of dynamic shared memory of a thread block."""
    stages = _stages(config) if config.stages == "auto" else config.stages
    least = max(1, min(_blocks(config, stages, 2), _most_blocks(config)))
    return stages, _shared(config, stages, 3 if _blocks(config, stages, 3) >= least else 2)


def _stages(config: BlockscaledGemmConfig) -> int:
    """What fits: with three buffers of decoded activations if that leaves three stages, else two."""
    room = _SM_BYTES // _AIM.get(config.tile.m, 1) - _RESERVED
    for buffers, least in ((3, 3), (2, 2)):
        stages = (room - buffers * _decoded(config)) // (_stage(config) + _BARRIER)
        if stages >= least:
            return min(stages, _MOST_STAGES)
    return 2


def _most_blocks(config: BlockscaledGemmConfig) -> int:
    """Thread blocks that an SM's registers hold, at about 100 a thread (more where N is 128)."""
    m, n, _ = config.tile
    if n == 128:
        return max(1, 128 // m)
    return {64: 4, 128: 2}.get(m, 1)


def _blocks(config: BlockscaledGemmConfig, stages: int, buffers: int) -> int:
    return _SM_BYTES // (_shared(config, stages, buffers) + _RESERVED)


def _shared(config: BlockscaledGemmConfig, stages: int, buffers: int) -> int:
    """Bytes with `buffers` tiles of decoded activations. The epilogue uses the pipeline's memory anew."""
    pipeline = buffers * _decoded(config) + stages * _stage(config)
    epilogue = round_up(config.tile.n * (config.tile.m + 4) * 4, 16)
    return max(pipeline, epilogue) + stages * _BARRIER


def _decoded(config: BlockscaledGemmConfig) -> int:
    """Bytes of one tile of activations, as 16-bit numbers."""
    return config.tile.n * config.tile.k * 2


def _stage(config: BlockscaledGemmConfig) -> int:
    """Bytes of one stage: packed data and scale factors of both operands."""
    m, n, k = config.tile
    return sum(
        round_up(rows * k * bits(dtype) // 8, 1024) + -(-rows // 128) * (k // block(dtype) // 4) * _SCALE_ATOM
        for rows, dtype in ((m, config.b), (n, config.a))
    )
