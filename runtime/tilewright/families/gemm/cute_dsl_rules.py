"""The rules for `gemm` kernels in CuTe-DSL alone (templates/gemm/cute_dsl.py.j2)."""

from __future__ import annotations

from functools import partial

from tilewright.configurations.rule import HARDWARE, OURS, of_module, rule
from tilewright.families.gemm.config import CUTE_DSL, GemmConfig
from tilewright.families.gemm.memory import SUBTILE_COLUMNS
from tilewright.formats.types import bits

cute_dsl_rule = partial(rule, of=CUTE_DSL)


# The program rounds sums to the type of A, stores them by stmatrix, and loads C of that type.
@cute_dsl_rule(OURS, "a b d", compiles="it would be another program")
def cute_dsl_types(config: GemmConfig) -> str | None:
    """A, B and D of a cute_dsl kernel have one type of 16 bits."""
    if bits(config.a) != 16 or {config.b, config.d} != {config.a}:
        return (
            f"A, B and D of a cute_dsl kernel are all bf16 or all f16, not {config.a}, {config.b}, {config.d}"
        )
    return None


# Two warpgroups of 64 rows each; a store takes 64 columns, a line of 128 bytes.
@cute_dsl_rule(OURS, "tile", compiles="it would be another program")
def cute_dsl_tile(config: GemmConfig) -> str | None:
    """M of a cute_dsl kernel's tile is 128 or 256, N a multiple of 64."""
    m, n, _ = config.tile
    if m % 128:
        return f"two warpgroups divide the rows of a cute_dsl tile: M is 128 or 256, not {m}"
    if n % SUBTILE_COLUMNS:
        return f"a cute_dsl kernel stores {SUBTILE_COLUMNS} columns at a time: N is a multiple, {n} is not"
    return None


# CUDA programming guide: 8 thread blocks is the largest portable cluster. Multicast gives each of the thread
# blocks that share a tile an equal part of it, of whole 8-row swizzle atoms: 8 parts of 64 rows at the least.
@cute_dsl_rule(HARDWARE, "cluster")
def cute_dsl_cluster(config: GemmConfig) -> str | None:
    """The cluster of a cute_dsl kernel is compiled in: 1 to 8 thread blocks, with powers of two for sides."""
    if config.cluster == "dynamic":
        return "the cluster of a cute_dsl kernel is compiled in, not dynamic"
    m, n = config.cluster
    if m * n > 8 or m & (m - 1) or n & (n - 1):
        return f"cluster {config.cluster} is not of 8 thread blocks at most, with powers of two for sides"
    return None


RULES = of_module(__name__)
