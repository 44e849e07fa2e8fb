"""The rules for `gemm` kernels. All code that asks whether a configuration is legal asks these.

`cutlass_rules` has the rules for CUTLASS's mainloop alone, `mma_rules` those for the mainloop of mma.sync,
`cute_dsl_rules` those for the one in CuTe-DSL, `tcgen05_rules` those for the one of tcgen05, `gated_rules`
those for gated activations.

The comment above a rule names its source. What nvcc accepts of all this is recorded in
`benchmarks/results/rules_against_compiler_gemm.md`.
"""

from __future__ import annotations

from tilewright.configurations.lean_tiles import misfit_subtiles
from tilewright.configurations.rule import HARDWARE, OURS, Rule, cutlass, of_module, rule, unsettled
from tilewright.configurations.shared import ONE_BLOCK
from tilewright.configurations.shared_rules import stream_k_schedule
from tilewright.configurations.sources import k_contiguous
from tilewright.families.gemm import cute_dsl_rules, cutlass_rules, gated_rules, mma_rules, tcgen05_rules
from tilewright.families.gemm.config import BOXED, LEAN, STREAM, TILED, GemmConfig
from tilewright.families.gemm.memory import (
    STREAM_COLUMNS,
    STREAM_ROWS,
    block_bytes,
    epilogue_through_smem,
    memory,
    warpgroups,
)
from tilewright.families.gemm.problem import ACTIVATIONS, GATED, OUTPUTS, OWN_OPERANDS
from tilewright.formats.types import bits

# Bytes of a tile's K.
DEPTHS = {
    "cutlass": (32, 64, 128, 256),
    "lean": (128, 256),
    "stream": (128, 256),
    "mma": (128, 256),
    "cute_dsl": (128,),
    "tcgen05": (128,),
}
MOST_SUMS = {"cutlass": 192, "lean": 176, "mma": 128, "cute_dsl": 128}  # registers of a thread
# Fields of which our kernels have one value: another value would give the same kernel another name.
SETTLED: dict[str, dict[str, object]] = {
    "cutlass": {},
    "lean": {"cluster": "dynamic", "scheduler": "data_parallel", "bias": True},
    "mma": {"cluster": ONE_BLOCK, "scheduler": "data_parallel", "bias": True, "c": "same"},
    "cute_dsl": {
        "scheduler": "data_parallel", "bias": False, "activation": "none", "c": "same", "layout": "tn",
        "schedule": "cooperative", "swap_ab": False, "fast_accum": False,
    },
    "tcgen05": {
        "scheduler": "data_parallel", "bias": True, "activation": "given", "c": "same", "layout": "tn",
        "fast_accum": False,
    },
    "stream": {
        "cluster": ONE_BLOCK, "scheduler": "data_parallel", "bias": True, "c": "same", "layout": "tn",
        "schedule": "cooperative", "swap_ab": True, "fast_accum": False, "stages": "auto",
    },
}  # fmt: skip


# wgmma.mma_async has these and more (PTX: its table of types): sums of f16 in f16, u8. Nobody has asked for
# them. CUTLASS multiplies by e5m2 too.
@rule(OURS, "a b acc mainloop", compiles="nobody asks for such kernels")
def operand_types(config: GemmConfig) -> str | None:
    """A and B are types that kernels multiply with each other, and are summed in the type that these kernels
    have."""
    if (config.a, config.b) not in OUTPUTS:
        pairs = ", ".join(f"{a} x {b}" for a, b in OUTPUTS)
        return f"no kernel here multiplies {config.a} by {config.b}; the pairs are {pairs}"
    sums = "s32" if config.a == "s8" else "f32"
    if config.acc != sums:
        return f"the kernels here sum {config.a} x {config.b} in {sums}, not in {config.acc}"
    if config.b == "e5m2" and config.mainloop == "cutlass":
        return f"only our kernels (lean, stream, mma) multiply {config.a} x e5m2"
    if config.a not in OWN_OPERANDS and config.mainloop not in ("cutlass", "tcgen05"):
        return f"the {config.mainloop} mainloop has no {config.a} operands, but {', '.join(OWN_OPERANDS)}"
    return None


# Other conversions are legal in CUTLASS, and nobody asks for them. sm90/element_epilogue.hpp scales FP8,
# finds its amax.
@rule(OURS, "d a", compiles="nobody asks for the conversion")
def output_type(config: GemmConfig) -> str | None:
    """D has the operands' type, or a wider one. For FP8 operands it may have either FP8 type."""
    outputs = OUTPUTS.get((config.a, config.b), ())
    if outputs and config.d not in outputs:
        return f"D of {config.a} x {config.b} is {' or '.join(outputs)}, not {config.d}"
    if bits(config.d) == 8 and config.mainloop == "cutlass":
        return (
            f"only our kernels (lean, mma, tcgen05) make a D of {config.d}: they scale it and find its amax"
        )
    return None


# wgmma.mma_async reads operands of 16 bits from shared memory in either direction (PTX: imm-trans-a,
# imm-trans-b), others with k contiguous alone. CUTLASS turns those round on their way through registers
# (sm90_mma_tma_gmma_rs_warpspecialized.hpp: tf32 in tt, nt and nn); no template here includes that mainloop.
@rule(OURS, "layout a")
def operand_layout(config: GemmConfig) -> str | None:
    """Operands that are not 16 bits wide have k contiguous: layout tn."""
    if config.layout != "tn" and bits(config.a) != 16:
        return (
            f"kernels support {config.a}, of {bits(config.a)} bits, in layout tn only, not "
            f"{config.layout}; 16-bit operands have every layout"
        )
    return None


# cute/arch/mma_sm90_gmma.hpp: instructions are 64 rows high and a multiple of 8 columns wide. Those of
# mma.sync are 16 rows by 8 columns; the four warps of a warpgroup have 64 rows (sm120/mainloop.hpp).
@rule(HARDWARE, "tile a", of=TILED)
def instruction_shape(config: GemmConfig) -> str | None:
    """The tile is made of a warpgroup's whole instructions: M of 64, N of 8 (s8: of 16 above 32)."""
    m, n, _ = config.tile
    if m % 64:
        return f"tile M {m} is not a multiple of 64"
    if n % 8:
        return f"tile N {n} is not a multiple of 8"
    # The s8 instructions skip the odd multiples of 8 above 24.
    if config.a == "s8" and n > 24 and n % 16:
        return f"tile N {n} is not a multiple of 16, as s8 instructions above 24 columns require"
    return None


# Long and narrow tiles load more than square ones for the same accumulators.
@rule(OURS, "tile", compiles="nobody has found a use for it")
def tile_size(config: GemmConfig) -> str | None:
    """A tile has at most 256 rows and 256 columns."""
    m, n, _ = config.tile
    if max(m, n) > 256:
        return f"tile {m}x{n} has a side of more than 256"
    return None


# An instruction's k is 32 bytes; a row of a swizzled stage of CUTLASS's is 32 to 256 bytes here (TMA boxes
# are at most 256 elements, and a deeper stage only leaves fewer of them). sm90/pipeline.hpp: of ours a stage
# is one box of 128 bytes a row, or two.
@rule(OURS, "tile a", compiles="stages of other widths are swizzled in narrower lines, deeper ones too few")
def tile_depth(config: GemmConfig) -> str | None:
    """Tile K is 128 or 256 bytes, of CUTLASS's kernels also 32 or 64, of cute_dsl and tcgen05 ones 128."""
    size, legal = config.tile.k * bits(config.a) // 8, DEPTHS[config.mainloop]
    if size not in legal:
        sizes = " or ".join(filter(None, (", ".join(map(str, legal[:-1])), str(legal[-1]))))
        return f"tile K {config.tile.k} of {config.a} is {size} bytes, not {sizes}"
    return None


# setmaxnreg gives a thread 240 registers (CUTLASS's HeavyRegisterPressure branch) or 232 (ours). Beyond these
# too few are left for addresses and the epilogue, and the compiler spills. FP8 without fast accumulation
# keeps a second set, which it promotes into (sm90_mma_..._fp8.hpp). Operands of mma.sync take registers, too.
@rule(OURS, "tile schedule fast_accum a", compiles="sums would be kept in local memory", of=TILED)
def accumulator_registers(config: GemmConfig) -> str | None:
    """The accumulators fit the register file: at most 192 a thread, of lean kernels 176, of mma and
    cute_dsl ones 128."""
    m, n, _ = config.tile
    own = config.mainloop != "cutlass"
    alone = config.schedule == "pingpong" or (own and warpgroups(config).consumers == 1)  # a warpgroup's tile
    threads = 128 if alone else 256
    per_thread, most = m * n // threads, MOST_SUMS[config.mainloop]
    sets = 2 if bits(config.a) == 8 and config.a != "s8" and not config.fast_accum else 1
    if per_thread * sets > most:
        twice = " twice (fast_accum is off)" if sets == 2 else ""
        return (
            f"tile {m}x{n} on {threads} threads takes {per_thread} accumulators "
            f"a thread{twice}: {per_thread * sets} registers > {most}"
        )
    return None


# dispatch_policy.hpp: the FastAccum schedules exist for FP8 alone; elsewhere sums are exact anyway.
@rule(cutlass("4.2"), "fast_accum a")
def fast_accumulation(config: GemmConfig) -> str | None:
    """Only kernels of FP8 operands may have fast accumulation."""
    if config.fast_accum and config.a not in ("e4m3", "e5m2"):
        return f"fast_accum is for FP8 operands, not {config.a}"
    return None


# Integers are rescaled by their consumer; a GELU of an s32 sum means nothing.
@rule(OURS, "activation d", compiles="it would mean nothing")
def integer_epilogue(config: GemmConfig) -> str | None:
    """ReLU is the only activation of an s32 output, also of a kernel whose calls say which."""
    if config.d == "s32" and config.activation not in ("none", "relu", "given"):
        return f"activation {config.activation} needs a floating-point D, not s32"
    return None


# sm90_mma_*.hpp: "Specialization requires Stages set to value 2 or more", as sm90/pipeline.hpp has it of lean
# ones; and the hardware's limit.
@rule(
    HARDWARE, "stages tile d c a", of=TILED, unless=(tile_depth, instruction_shape),
    compiles="with given stages kernels of CUTLASS's compile, and no GPU can launch them",
)  # fmt: skip
def shared_memory(config: GemmConfig) -> str | None:
    """At least two stages, and the epilogue's buffers, fit into shared memory."""
    (stages, total), most = memory(config), block_bytes(config)
    if total > most or stages < 2:
        gpu = "sm_12x" if config.mainloop == "mma" else "sm_90"
        return (
            f"shared memory {total} B > {most} B of {gpu}, with {max(stages, 2)} stages of "
            f"tile {config.tile} and D {config.d}"
        )
    return None


# gemm/lean.hpp: a tactic gives a lean kernel's cluster and splits, a call its bias. gemm/stream.hpp: a grid
# of thread blocks, each of which divides k over its warps. gemm/mma_kernel.hpp: no clusters; any C.
# templates/gemm/cute_dsl.py.j2: one program.
@rule(
    OURS,
    "swap_ab schedule scheduler cluster layout fast_accum bias activation c stages mainloop",
    compiles="the kernel would be the same: what differs is an argument of a launch",
)
def settled_fields(config: GemmConfig) -> str | None:
    """A lean kernel has a dynamic cluster, no stream-K, and a bias; a stream kernel is swapped, cooperative
    and exact, with k contiguous, a bias, a C, and no cluster; an mma kernel has a bias, a C, no stream-K and
    no cluster; a cute_dsl kernel is cooperative, with k contiguous and a C, no bias and no activation; a
    tcgen05 kernel has k contiguous, a bias, a C, and the activation of the call."""
    return unsettled(config, f"{config.mainloop} kernels", SETTLED[config.mainloop])


# sm90/element_epilogue.hpp: a launch says which activation, each a loop of its own. CUTLASS's are types.
@rule(OURS, "activation mainloop", compiles="three kernels would do what one does")
def given_activation(config: GemmConfig) -> str | None:
    """The activation of our kernels is none or given; CUTLASS's kernels have the activation that they
    apply."""
    own = config.mainloop != "cutlass"
    if config.activation not in ("none", *GATED) and own != (config.activation == "given"):
        legal = "none or given (each call says which)" if own else ", ".join(ACTIVATIONS)
        return f"the activation of {config.mainloop} kernels is {legal}, not {config.activation}"
    return None


# gemm/lean_kernel.hpp: where 64 rows do not divide into two, the warpgroups of a cooperative kernel halve the
# columns. sm90/subtile.hpp: rows of 32 and 64 bytes are swizzled. sm90/wgmma.hpp: boxes have 128 bytes of
# rows.
@rule(OURS, "tile schedule d layout", of=LEAN)
def lean_columns(config: GemmConfig) -> str | None:
    """Each warpgroup of a lean kernel has a multiple of 8 columns: of 32 where it stores FP8 with n along
    them, of 64 where two halve the columns of an operand that does not have k contiguous."""
    m, n, _ = config.tile
    if config.schedule == "cooperative" and m == 192 and n % 16:
        return f"two warpgroups divide the columns of a tile of 192 rows: N is a multiple of 16, not {n}"
    columns = warpgroups(config).columns
    if bits(config.d) == 8 and not config.swap_ab and columns % 32:
        return f"{columns} columns of a warpgroup are not a multiple of 32, as rows of {config.d} are stored"
    if columns < n and not k_contiguous(config)[1] and columns % 64:
        return (
            f"{columns} columns of a warpgroup are not a multiple of 64: in layout {config.layout} the "
            "operand with these rows comes in boxes of 64"
        )
    return None


# sm90/subtile.hpp: a row of a subtile is an odd number of 16-byte units, or 2, 4 or 8 of them.
@rule(OURS, "tile schedule", compiles="rows of 16 bytes would be stored slowly", of=BOXED)
def lean_subtiles(config: GemmConfig) -> str | None:
    """The tile that a warpgroup of a lean or mma kernel stores divides into epilogue subtiles of at least 16
    columns."""
    columns = warpgroups(config).columns
    if config.activation in GATED and not config.swap_ab:
        columns //= 2  # of D
    return misfit_subtiles(columns, config.swap_ab)


# gemm/lean_kernel.hpp: a C of D's 16 bits comes in boxes, any other one goes through the stages' memory, as D
# of F32 does.
@rule(
    OURS, "c d tile", compiles="the kernel would not do what its table says", of=LEAN,
    unless=(tile_depth, accumulator_registers, shared_memory),
)  # fmt: skip
def lean_epilogue(config: GemmConfig) -> str | None:
    """A lean kernel has a C, unless its activation is gated. A ping-pong kernel, or one whose sums do not fit
    into its stages, has a D of 16 bits."""
    if config.activation in GATED:
        return None if config.c == "none" else f"kernels of {config.activation} add no C: expected c: none"
    if epilogue_through_smem(config) or bits(config.d) == 16:
        return None if config.c == "same" else "our kernels add C if a call has one: expected c: same"
    stages = memory(config).stages
    why = f"the sums of {config.schedule} tile {config.tile} do not go through its {stages} stages"
    if config.c != "none":
        return f"{why}: c is none"
    return f"{why}: d is not f32" if config.d == "f32" else None


# gemm/plain_form.hpp: TMA stores what the tensor core summed.
@rule(OURS, "plain_forms mainloop d activation", compiles="no launch would run the forms")
def plain_products(config: GemmConfig) -> str | None:
    """Kernels with plain forms are lean, have a D of 16 bits, and apply no activation that a call names."""
    if not config.plain_forms:
        return None
    if config.mainloop != "lean" or bits(config.d) != 16 or config.activation not in ("none", *GATED):
        words = f"{config.mainloop}, D {config.d}, activation {config.activation}"
        kinds = f"no activation or {', '.join(GATED)}"
        return f"plain_forms is for lean kernels with a D of 16 bits and {kinds}, not {words}"
    return None


# gemm/split_form.hpp, which stores sums as they are.
@rule(OURS, "split_form plain_forms activation", compiles="no launch would run the form")
def split_products(config: GemmConfig) -> str | None:
    """A kernel with a split form has plain forms, and no activation."""
    if config.split_form and (not config.plain_forms or config.activation in GATED):
        forms = "with" if config.plain_forms else "without"
        words = f"{forms} plain forms and activation {config.activation}"
        return f"split_form is for kernels with plain_forms and activation none, not {words}"
    return None


# gemm/stream_kernel.hpp: mma.sync.m16n8, of which B is the operand of 16 rows; a lane loads 16 bytes of two.
@rule(OURS, "tile", compiles="it would be the same kernel under another name", of=STREAM)
def stream_tile(config: GemmConfig) -> str | None:
    """A stream kernel's tile is 16x8."""
    if config.tile[:2] != (STREAM_COLUMNS, STREAM_ROWS):
        return f"a stream tile is {STREAM_COLUMNS}x{STREAM_ROWS}, not {config.tile}"
    return None


RULES: tuple[Rule, ...] = (
    stream_k_schedule,
    *of_module(__name__),
    *cutlass_rules.RULES,
    *mma_rules.RULES,
    *gated_rules.RULES,
    *cute_dsl_rules.RULES,
    *tcgen05_rules.RULES,
)
