"""What is legal for a `gemm` kernel on sm_90a: the single statement, asked by all that need to know.

Each rule takes a configuration and answers None, or the reason with its numbers. The comment above a
rule names what it rests on: an assertion in CUTLASS 4.2, the PTX manual, or a policy of our own.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright_generator.families.gemm.config import GemmConfig, bits
from tilewright_generator.families.gemm.memory import SM90_SHARED_MEMORY, memory

_INSTRUCTION_BYTES = 32  # of k that one wgmma instruction takes

_TYPES = {  # operands: accumulator and outputs
    ("bf16", "bf16"): ("f32", ("bf16", "f32")),
    ("f16", "f16"): ("f32", ("f16", "f32")),
    ("e4m3", "e4m3"): ("f32", ("bf16", "f16", "f32")),
    ("e5m2", "e4m3"): ("f32", ("bf16", "f16", "f32")),
    ("tf32", "tf32"): ("f32", ("f32",)),
    ("s8", "s8"): ("s32", ("s32",)),
}


# PTX wgmma.mma_async: the table of operand and accumulator types.
def operand_types(config: GemmConfig) -> str | None:
    """A and B are a pair that wgmma multiplies, summed in the type it sums them in."""
    known = _TYPES.get((config.a, config.b))
    if known is None:
        pairs = ", ".join(f"{a} x {b}" for a, b in _TYPES)
        return f"no kernel multiplies {config.a} by {config.b}; the pairs are {pairs}"
    if config.acc != known[0]:
        return f"{config.a} x {config.b} is summed in {known[0]}, not in {config.acc}"
    return None


# Ours: other conversions are legal in CUTLASS, and nobody asks for them.
def output_type(config: GemmConfig) -> str | None:
    """D has the operands' type, or a wider one."""
    outputs = _TYPES.get((config.a, config.b), ("", ()))[1]
    if outputs and config.d not in outputs:
        return f"D of {config.a} x {config.b} is {' or '.join(outputs)}, not {config.d}"
    return None


# PTX wgmma.mma_async: only 16-bit operands may be transposed (imm-trans-a, imm-trans-b).
def operand_layout(config: GemmConfig) -> str | None:
    """Operands that are not 16 bits wide have k contiguous: layout tn."""
    if config.layout != "tn" and bits(config.a) != 16:
        return (
            f"layout {config.layout} needs 16-bit operands, {config.a} has {bits(config.a)} bits; "
            "only tn is possible"
        )
    return None


# cute/arch/mma_sm90_gmma.hpp: instructions are 64 rows high, 8 to 256 columns wide.
def instruction_shape(config: GemmConfig) -> str | None:
    """The tile is made of whole wgmma instructions: M of 64, N of 8 (s8: of 16 above 32)."""
    m, n, _ = config.tile
    if m % 64 or m > 256:
        return f"tile M {m} is not 64, 128, 192 or 256"
    if n % 8 or not 8 <= n <= 256:
        return f"tile N {n} is not a multiple of 8 from 8 to 256"
    # The s8 instructions skip the odd multiples of 8 above 24.
    if config.a == "s8" and n > 24 and n % 16:
        return f"tile N {n} is not a multiple of 16, as s8 instructions above 24 columns want"
    return None


# One instruction's k is 32 bytes; a row of a swizzled stage is 32 to 256 bytes here (TMA boxes are
# at most 256 elements, and a deeper stage only leaves fewer of them).
def tile_depth(config: GemmConfig) -> str | None:
    """Tile K is a power-of-two number of bytes from 32 to 256."""
    size = config.tile.k * bits(config.a) // 8
    if size not in (32, 64, 128, 256):
        return f"tile K {config.tile.k} of {config.a} is {size} bytes, not 32, 64, 128 or 256"
    return None


# sm90_gemm_tma_warpspecialized_cooperative.hpp: "Cooperative kernel requires Tile Size to be greater
# than or equal to 128 along the M-dimension", and its epilogue tile of 128 rows must divide M.
def cooperative_rows(config: GemmConfig) -> str | None:
    """A cooperative tile gives each of its two warpgroups whole instructions: M is 128 or 256."""
    if config.schedule == "cooperative" and config.tile.m % 128:
        return f"cooperative needs tile M to be a multiple of 128, {config.tile.m} is not"
    return None


# A thread has at most 240 registers (setmaxnreg in the kernels' HeavyRegisterPressure branch); above
# 192 accumulators too few are left for addresses and the epilogue, and the compiler spills.
# FP8 without fast accumulation keeps a second set, which it promotes into (sm90_mma_..._fp8.hpp).
def accumulator_registers(config: GemmConfig) -> str | None:
    """The accumulators fit the register file: at most 192 a thread."""
    threads = 256 if config.schedule == "cooperative" else 128
    per_thread = config.tile.m * config.tile.n // threads
    sets = 2 if bits(config.a) == 8 and config.a != "s8" and not config.fast_accum else 1
    if per_thread * sets > 192:
        twice = " twice (fast_accum is off)" if sets == 2 else ""
        return (
            f"tile {config.tile.m}x{config.tile.n} on {threads} threads takes {per_thread} accumulators "
            f"a thread{twice}: {per_thread * sets} registers > 192"
        )
    return None


# CUDA programming guide: 8 thread blocks is the largest portable cluster. Powers of two are ours: they
# divide every tile, and other sizes leave SMs of a GPC idle.
def cluster_size(config: GemmConfig) -> str | None:
    """A cluster is 1, 2, 4 or 8 thread blocks, with powers of two for sides."""
    m, n = config.cluster
    if m * n > 8:
        return f"cluster {config.cluster} has {m * n} thread blocks > 8, the largest portable size"
    if m & (m - 1) or n & (n - 1):
        return f"cluster {config.cluster} has a side that is not a power of two"
    return None


# Multicast gives each thread block of a cluster an equal slice of the shared tile to load; a slice
# is whole 8-row swizzle atoms of shared memory.
def multicast_slices(config: GemmConfig) -> str | None:
    """The operand tiles that a cluster shares split into slices of whole 8-row atoms."""
    for side, rows, parts in (("A", config.tile.m, config.cluster.n), ("B", config.tile.n, config.cluster.m)):
        if parts > 1 and parts & (parts - 1) == 0 and rows % (8 * parts):
            return (
                f"cluster {config.cluster} splits the {rows} rows of {side}'s tile into {parts} slices "
                f"of {rows / parts:g}, not a multiple of 8"
            )
    return None


# sm90_gemm_tma_warpspecialized_pingpong.hpp: "Ping-pong kernel does not currently support stream-K".
def stream_k_schedule(config: GemmConfig) -> str | None:
    """Stream-K needs the cooperative schedule."""
    if config.scheduler == "stream_k" and config.schedule != "cooperative":
        return f"stream_k needs the cooperative schedule, not {config.schedule}"
    return None


# dispatch_policy.hpp: the FastAccum schedules exist for FP8 alone; elsewhere sums are exact anyway.
def fast_accumulation(config: GemmConfig) -> str | None:
    """Fast accumulation is a choice of FP8 operands alone."""
    if config.fast_accum and config.a not in ("e4m3", "e5m2"):
        return f"fast_accum is for FP8 operands, not {config.a}"
    return None


# sm90_mma_tma_gmma_ss_warpspecialized_fp8.hpp, can_implement: sums are promoted every 4 instructions,
# which must be whole mainloop iterations; a deeper tile would be promoted less often.
def promoted_depth(config: GemmConfig) -> str | None:
    """Without fast accumulation an FP8 tile is at most 128 deep: the distance between promotions."""
    if config.a in ("e4m3", "e5m2") and not config.fast_accum and config.tile.k > 128:
        return f"FP8 without fast_accum is promoted every 128 of k, tile K {config.tile.k} is deeper"
    return None


# Ours: integers are rescaled by their consumer; a GELU of an s32 sum means nothing.
def integer_epilogue(config: GemmConfig) -> str | None:
    """An s32 output takes no activation but ReLU."""
    if config.d == "s32" and config.activation not in ("none", "relu"):
        return f"activation {config.activation} needs a floating-point D, not s32"
    return None


# sm90_mma_*.hpp: "Specialization requires Stages set to value 2 or more"; and the hardware's limit.
def shared_memory(config: GemmConfig) -> str | None:
    """At least two stages, and the epilogue's buffers, fit into shared memory."""
    if tile_depth(config) or instruction_shape(config):
        return None  # their reasons say it better
    stages, total = memory(config)
    if total > SM90_SHARED_MEMORY or stages < 2:
        return (
            f"shared memory {total} B > {SM90_SHARED_MEMORY} B of sm_90, with {max(stages, 2)} stages of "
            f"tile {config.tile} and D {config.d}"
        )
    return None


RULES: tuple[Callable[[GemmConfig], str | None], ...] = (
    operand_types,
    output_type,
    operand_layout,
    instruction_shape,
    tile_depth,
    cooperative_rows,
    accumulator_registers,
    cluster_size,
    multicast_slices,
    stream_k_schedule,
    fast_accumulation,
    promoted_depth,
    integer_epilogue,
    shared_memory,
)
