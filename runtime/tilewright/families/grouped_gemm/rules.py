"""What is legal for a `grouped_gemm` kernel. Generation, `explain`, tuning and tests ask these rules alone.

The comment above a rule names what it rests on.
"""

from __future__ import annotations

from tilewright.architectures.table import MMA_SYNC, TCGEN05, WGMMA, has_tensor_core
from tilewright.configurations.lean_tiles import BOX_BYTES, misfit_subtiles
from tilewright.configurations.rule import HARDWARE, OURS, among, cutlass, of_module, rule, unsettled
from tilewright.configurations.sources import k_contiguous
from tilewright.families.grouped_gemm.config import (
    GroupedGemmConfig,
    by_mma,
    by_parts,
    by_tcgen05,
    fp4,
    narrow,
    own_scales,
    packed,
)
from tilewright.families.grouped_gemm.memory import memory, most_bytes, side_bytes, warpgroups
from tilewright.formats.types import bits

# Registers for sums, by warpgroups that multiply, of a thread's 224 (of three warpgroups: 152). With more,
# the compiler spills within the loop over k.
_REGISTERS = {1: 192, 2: 192, 3: 128}
_SWIZZLED = 1024  # bytes at whose multiples boxes begin
_MMA_REGISTERS = 112  # of mma.sync, whose operands take registers, too; 128x128 with scales spills 236 bytes


# PTX ISA: "wgmma.mma_async requires sm_90a".
@rule(HARDWARE, "mainloop arch")
def mainloop_arch(config: GroupedGemmConfig) -> str | None:
    """The mainloop lean is for sm_90a; mma is for sm_12x, and is tried on sm_90a; tcgen05 is for sm_100 and
    sm_110."""
    fitting = {"lean": (WGMMA,), "mma": (WGMMA, MMA_SYNC), "tcgen05": (TCGEN05,)}
    if any(has_tensor_core(config.arch, core) for core in fitting[config.mainloop]):
        return None
    if by_tcgen05(config):
        return f"the mainloop tcgen05 is for sm_100 and sm_110, not {config.arch}"
    mainloop = "mma" if has_tensor_core(config.arch, MMA_SYNC) else "tcgen05"
    own = "sm_90a" if config.mainloop == "lean" else "sm_12x"
    return f"the mainloop {config.mainloop} is for {own}, not {config.arch}; {mainloop} is for {config.arch}"


# wgmma.mma_async multiplies more pairs; what is scaled in blocks of 128 (DeepSeek-V3's recipe) is e4m3. FP4
# has factors of 32 of k (kind::mxf4nvf4, scale_vec::2X), and so has FP8 beside it.
@rule(OURS, "a b scales", compiles="nobody asks for the pair")
def operand_types(config: GroupedGemmConfig) -> str | None:
    """A and B are both e4m3, with scale factors, or both bf16, without; or mxfp4 and e4m3 or mxfp4, with
    scales 1x32_ue8m0."""
    if fp4(config):
        if "bf16" in {config.a, config.b}:
            return f"no kernel here multiplies {config.a} by {config.b}"
        return None if config.scales == "1x32_ue8m0" else f"mxfp4 has scales 1x32_ue8m0, not {config.scales}"
    if config.a != config.b:
        return f"no kernel here multiplies {config.a} by {config.b}"
    if (config.a == "bf16") != (config.scales == "none"):
        scales = "no scale factors" if config.a == "bf16" else "scales 128x128 or 1x128, or packed ones"
        return f"{config.a} has {scales}, not scales {config.scales}"
    return None


# PTX ISA: ".block_scale requires sm_120a", or the family's sm_120f.
@rule(HARDWARE, "scales mainloop arch")
def packed_scales(config: GroupedGemmConfig) -> str | None:
    """UE8M0 factors are those of mma on sm_12x and of tcgen05, whose instructions multiply by them."""
    if (
        packed(config)
        and not by_tcgen05(config)
        and not (by_mma(config) and has_tensor_core(config.arch, MMA_SYNC))
    ):
        return f"no instruction of {config.mainloop} on {config.arch} multiplies by UE8M0 factors"
    return None


# wgmma.mma_async and ldmatrix transpose 16-bit operands alone. sm90/producer.hpp: boxes of an MN-major
# operand have 64 rows, of which each warpgroup reads whole ones; of mma.sync also one half
# (sm120/fragments.hpp).
@rule(OURS, "layout a tile swap_ab")
def layouts(config: GroupedGemmConfig) -> str | None:
    """Operands that are not contiguous along k are of 16 bits, and a warpgroup's columns multiples of 64."""
    k_a, k_b = k_contiguous(config)
    if (k_a and k_b) or tile_sides(config):
        return None
    if config.a != "bf16":
        return f"no instruction here transposes {config.a}"
    columns, half = warpgroups(config).columns, by_mma(config)
    if not k_b and (config.tile.n % 64 or (columns % 64 and not (half and columns == 32))):
        return f"{columns} columns of a warpgroup are not {'32, or ' if half else ''}a multiple of 64"
    return None


# wgmma.mma_async is 64 rows high and a multiple of 8 columns wide. grouped_gemm/kernel.hpp: one warpgroup
# has 64 rows, two have 128 or 256, three have 192. sm120/warpgroups.hpp: an odd number of 64-row slices is
# not halved, so the columns are.
@rule(OURS, "tile mainloop")
def tile_sides(config: GroupedGemmConfig) -> str | None:
    """The tile has 64, 128, 192 or 256 rows, and a multiple of 8 columns, at most 256."""
    m, n, _ = config.tile
    if m not in (64, 128, 192, 256):
        return f"tile M {m} is not 64, 128, 192 or 256"
    if n % 8 or n > 256:
        return f"tile N {n} is not a multiple of 8 up to 256"
    if by_mma(config) and m > 64 and warpgroups(config).consumers == 1:
        return f"two warpgroups divide the columns of a tile of {m} rows: N is a multiple of 16, not {n}"
    return None


# sm90/pipeline.hpp: an operand's stage is one box of 128 bytes a row, or two. grouped_gemm/fp4_kernel.hpp,
# narrow_kernel.hpp: FP4, and FP8 whose factors the instruction takes, also have one of 64 bytes; boxes begin
# at multiples of 1,024 bytes.
@rule(OURS, "tile a b scales", compiles="a stage is made of boxes of 128 bytes, one or two")
def tile_depth(config: GroupedGemmConfig) -> str | None:
    """The tile's K is 128 or 256 bytes: one or two boxes; of two mxfp4, and of e4m3 with packed scales by
    mma, also 64; of mxfp4 beside e4m3, 128 or 256 elements."""
    if fp4(config):
        depths = (128, 256, 512) if config.a == config.b else (128, 256)
        reason = among(f"tile K of {config.a} x {config.b}", config.tile.k, depths)
        misfits = [size for size in side_bytes(config) if size % _SWIZZLED]
        return reason or (
            f"a stage's {misfits[0]} B of mxfp4 are not a multiple of {_SWIZZLED}" if misfits else None
        )
    if narrow(config):
        misfits = [size for size in side_bytes(config) if size % _SWIZZLED]
        return f"a stage's {misfits[0]} B are not a multiple of {_SWIZZLED}" if misfits else None
    size = config.tile.k * bits(config.a) // 8
    if size not in (BOX_BYTES, 2 * BOX_BYTES):
        return f"tile K {config.tile.k} of {config.a} is {size} bytes, not {BOX_BYTES} or {2 * BOX_BYTES}"
    return None


# sm90/subtile.hpp: a row of a subtile is an odd number of 16-byte units, or 2, 4 or 8 of them.
@rule(OURS, "tile", compiles="rows of 16 bytes would be stored slowly")
def subtiles(config: GroupedGemmConfig) -> str | None:
    """The columns of a warpgroup divide into epilogue subtiles of at least 16."""
    return None if tile_sides(config) else misfit_subtiles(warpgroups(config).columns, config.swap_ab)


# sm90/scaled_mainloop.hpp: each half of the columns is an instruction's N; turns are those of two warpgroups.
# sm120/scaled_mainloop.hpp has one way.
@rule(OURS, "promotion tile scales mainloop")
def promotion_of_tile(config: GroupedGemmConfig) -> str | None:
    """Promotion is that of sums with scale factors: in turn by two warpgroups, in halves of a multiple of 8
    columns; an mma kernel's is `after`."""
    if config.promotion != "after" and by_mma(config):
        return f"an mma kernel has one way to promote sums, which is after, not {config.promotion}"
    if config.promotion != "after" and config.scales == "none":
        return "sums without scale factors are not promoted"
    if config.promotion == "in_turn" and config.tile.m in (64, 192):
        count = "one warpgroup, which has" if config.tile.m == 64 else "three warpgroups, of which one has"
        return f"a tile of {config.tile.m} rows has {count} nobody to take turns with"
    if config.promotion == "halves" and config.tile.n % 16:
        return f"tile N {config.tile.n} is not a multiple of 16, whose halves are whole instructions"
    return None


# grouped_gemm/kernel.hpp: setmaxnreg gives a consumer thread 224 registers, or 152 of three warpgroups, of
# which addresses, scales and the epilogue take 32, or 24. BF16's sums are the tensor core's own, and go
# through a second set on their way out. Factors of columns stay in registers; 192x128 into F32 spills 400
# bytes. grouped_gemm/mma_kernel.hpp: 224, too.
@rule(OURS, "tile promotion scales mainloop", compiles="the compiler would spill")
def registers(config: GroupedGemmConfig) -> str | None:
    """The sums, and those of 128 of k beside them, fit the registers of a thread."""
    if tile_sides(config) or by_tcgen05(config):
        return None
    consumers, rows, columns = warpgroups(config)
    sums = rows * columns // 2
    if by_mma(config):
        sums *= 1 if config.scales == "none" or packed(config) else 2
        most = _MMA_REGISTERS
        return (
            f"tile {config.tile} takes {sums} registers a thread for sums > {most}" if sums > most else None
        )
    if config.scales != "none":
        sums += columns // 2 * (2 if config.promotion == "overlapped" else 1)
    if consumers == 3 and (config.scales == "1x128" or config.swap_ab or config.d == "f32"):
        return f"tile {config.tile} leaves no registers for factors of columns, and addresses of F32"
    most = _REGISTERS[consumers] - (64 if config.scales == "none" else 0)
    if sums > most:
        return f"tile {config.tile} takes {sums} registers a thread for sums > {most}"
    return None


# sm90/pipeline.hpp: the ring needs two stages; and the hardware's limit.
@rule(HARDWARE, "stages tile mainloop")
def shared_memory(config: GroupedGemmConfig) -> str | None:
    """At least two stages, and what is stored from, fit into shared memory."""
    if tile_sides(config) or tile_depth(config) or subtiles(config):
        return None
    if by_tcgen05(config) and tcgen05_tile(config):
        return None
    (stages, total), most = memory(config), most_bytes(config)
    if total > most or stages < 2:
        gpu = "sm_12x" if by_mma(config) else "sm_100" if by_tcgen05(config) else "sm_90"
        return f"shared memory {total} B > {most} B of {gpu}, with {max(stages, 2)} stages"
    return None


# sm100_blockscaled_umma_builder.inl: block-scaled MMAs have M of 128 (one SM) or 256 (two), N of 64, 128, 192
# or 256; sm100_blockwise_umma_builder.inl: a tile is no smaller than the block that shares a factor. Ours: a
# stage's row is a swizzled line of 128 bytes, or half of one (FP4); a thread of the epilogue that scales
# sums holds a row of them, so 128 columns at most, and of factors for each column 64 (128 spill 1,296 bytes).
@rule(
    cutlass("4.2"),
    "tile mainloop scales swap_ab",
    compiles="factors for each of 128 columns spill; other tiles of the dense instruction are not asked for",
    of=by_tcgen05,
)
def tcgen05_tile(config: GroupedGemmConfig) -> str | None:
    """A tile of tcgen05 has 128 rows, and K 128 (two mxfp4: also 256; bf16: 64). It has 64, 128, 192 or 256
    columns; with F32 factors 128, or of swapped operands or scales 1x128 32 or 64; of bf16 also 32."""
    if config.tile.m != 128:
        return f"a thread block's tile of tcgen05 has M 128, not {config.tile.m}"
    widths: tuple[int, ...] = (64, 128, 192, 256)
    if config.scales == "none":
        widths = (32, *widths)
    elif not packed(config):
        widths = (128,) if own_scales(config)[1] == "blocks" else (32, 64)
    depths = (64,) if config.a == "bf16" else (128, 256) if config.a == config.b == "mxfp4" else (128,)
    reason = among(f"tile N of tcgen05 with scales {config.scales}", config.tile.n, widths)
    return reason or among(f"tile K of {config.a} x {config.b} on tcgen05", config.tile.k, depths)


# Only kernels of tcgen05 have a schedule. sm90_tile_scheduler_group.hpp: the constructor reads the extents of
# groups before griddepcontrol.wait, so the product begins when the kernel before it has ended.
@rule(
    OURS,
    "mainloop schedule pdl promotion store_buffers layout swap_ab scales d",
    compiles="the kernel would be the same under another name, or would race with the kernel before it",
)
def settled_fields(config: GroupedGemmConfig) -> str | None:
    """tcgen05 has no pdl, promotion or store_buffers, and layout tn, and with UE8M0 factors and D of f32 no
    swap_ab; other mainloops have no schedule."""
    if not by_tcgen05(config):
        return unsettled(config, f"kernels with the mainloop {config.mainloop}", {"schedule": "1sm"})
    settled = {"pdl": False, "promotion": "after", "store_buffers": "auto", "layout": "tn"}
    if by_parts(config):  # grouped_gemm/tcgen05_parts.hpp
        settled |= {"swap_ab": False}
    return unsettled(config, "kernels with the mainloop tcgen05", settled)


# grouped_gemm/weights_first.hpp: only dense forms load B first, and only kernels with factors of blocks have
# forms (kernel.hpp). Without programmatic launch there is nothing to load ahead of.
@rule(OURS, "constant_b mainloop scales d pdl", compiles="the kernel would be the same under another name")
def constant_weights(config: GroupedGemmConfig) -> str | None:
    """Kernels that load a constant B first are lean ones with scales 128x128, D of bf16, and pdl."""
    if not config.constant_b:
        return None
    if config.mainloop != "lean" or config.scales != "128x128" or config.d != "bf16":
        words = f"{config.mainloop}, scales {config.scales}, D {config.d}"
        return f"constant_b is for kernels of lean, scales 128x128, D bf16, not {words}"
    return (
        None if config.pdl else "without pdl, a constant B cannot be loaded before the previous kernel ends"
    )


RULES = of_module(__name__)
