"""The scale factors of block-scaled kernels of tcgen05, from memory in the 128x4 layout to tensor memory.

The factors of 128 rows and 4 blocks of k are an atom of 512 bytes, and the atoms of 128 rows follow each
other along k. So TMA moves whole atoms, and each thread block loads all that its MMAs read.
"""

from dataclasses import dataclass

import cutlass
from cutlass import Int32, Int64, cute
from cutlass.cute.nvgpu import cpasync, tcgen05
from cutlass.utils import blockscaled_layout
from tilewright_programs.gemm.tcgen05_ranges import Ranges
from tilewright_programs.gemm.tcgen05_tiles import Work
from tilewright_programs.quantize.nvfp4_numbers import asm

SCALES = {16: cutlass.Float8E4M3FN, 32: cutlass.Float8E8M0FNU}  # types, by the elements that share one
ATOM_ROWS, ATOM_COLUMNS, ATOM_BYTES = 128, 4, 512
WORD = Int64  # in which TMA moves atoms
ATOM_WORDS = ATOM_BYTES * 8 // WORD.width
# The descriptor of an atom in shared memory for tcgen05.cp, without its address: groups of 8 rows are 128
# bytes apart, version 1, not swizzled.
DESCRIPTOR = 128 >> 4 << 32 | 1 << 46


def encoded(address):
    """An address of shared memory in a descriptor: 14 bits. In a cluster, addresses have the thread block's
    rank above these."""
    return Int64((address & 0x3FFFF) >> 4)


def atoms_down(rows):
    """Atoms of scale factors that `rows` rows of a tile have, or share with the next tiles."""
    return -(-rows // ATOM_ROWS)


@dataclass(frozen=True)
class Scales(Ranges):
    """The scale factors of a kernel."""

    block: int  # elements along k that share a scale factor
    prefetch: bool  # whether loads are announced to L2 as many stages ahead as the ring has

    @property
    def scale(self):
        """The type of scale factors."""
        return SCALES[self.block]

    @property
    def atoms(self):
        """Atoms of scale factors along k, in a stage."""
        return self.tile[2] // self.block // ATOM_COLUMNS

    @property
    def scale_columns(self):
        """Columns of tensor memory that the scale factors of A and B take: 4 an atom."""
        return tuple(atoms_down(rows) * self.atoms * 4 for rows in self.tile[:2])

    @property
    def sharers(self):
        """Neighbouring tiles whose columns share atoms of scale factors."""
        return max(1, ATOM_ROWS // self.tile[1])

    def scale_layouts(self, tiled_mma):
        """The layouts of the scale factors of A and B in shared memory, as MMAs see them."""
        arguments = (tiled_mma, self.tiler, self.block, self.stages)
        return (
            blockscaled_layout.make_smem_layout_sfa(*arguments),
            blockscaled_layout.make_smem_layout_sfb(*arguments),
        )

    def boxes(self, rows):
        """The same of `rows` rows, as TMA writes them: 128s of rows, words along k, stages."""
        across, down = self.atoms * ATOM_WORDS, atoms_down(rows)
        return cute.make_layout((down, across, self.stages), stride=(across, 1, down * across))

    def scale_bytes(self, rows):
        """Bytes of a stage's scale factors of `rows` rows."""
        return atoms_down(rows) * self.atoms * ATOM_BYTES

    def scale_loads(self, scales_a, scales_b):
        """The TMA loads of the scale factors."""
        op = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.TWO if self.sms == 2 else tcgen05.CtaGroup.ONE)
        pairs = []
        for tensor, rows in ((scales_a, self.tile[0]), (scales_b, self.tile[1])):
            box = cute.slice_(self.boxes(rows), (None, None, 0))
            pairs += cpasync.make_tiled_tma_atom(op, tensor, box, box.shape)
        return tuple(pairs)

    def scale_parts(self, tma, tensor, memory, rows):
        """A load of scale factors: its atom, [part, 128s of rows, k tile, matrix] in global memory and
        [part, stage] in shared memory."""
        layout = self.boxes(rows)
        box = cute.slice_(layout, (None, None, 0)).shape
        stages = cute.make_tensor(cute.recast_ptr(memory.data_ptr(), dtype=WORD), layout)
        tiles = cute.local_tile(tensor, box, (None, None, None))
        target, source = cpasync.tma_partition(
            tma, 0, cute.make_layout(1), cute.group_modes(stages, 0, 2), cute.group_modes(tiles, 0, 2)
        )
        return tma, source, target

    def scales_in_tensor_memory(self, tiled_mma, first):
        """The scale factors of A and of B of a stage, behind the sums."""
        make = blockscaled_layout.make_tmem_layout_sfa, blockscaled_layout.make_tmem_layout_sfb
        column, scales = self.pitch + self.tile[1], []
        for make_layout, stored, count in zip(
            make, self.scale_layouts(tiled_mma), self.scale_columns, strict=True
        ):
            layout = make_layout(
                tiled_mma, self.tiler, self.block, cute.slice_(stored, (None, None, None, 0))
            )
            pointer = cute.recast_ptr(first + column, dtype=self.scale)
            scales.append(cute.make_tensor(pointer, layout))
            column += count
        return scales

    @cute.jit
    def copy_scales(self, stages, stage, scales, rows: cutlass.Constexpr):
        """Copies a stage's scale factors of `rows` rows to tensor memory, an atom at a time. The MMAs of 4
        blocks of k read neighbouring atoms, one for each 128 rows."""
        atoms = atoms_down(rows)
        group = "tcgen05.cp.cta_group::2" if self.sms == 2 else "tcgen05.cp.cta_group::1"
        first = stages.toint() + stage * self.scale_bytes(rows)
        for i in cutlass.range_constexpr(atoms * self.atoms):
            down, along = i // self.atoms, i % self.atoms
            descriptor = Int64(DESCRIPTOR) | encoded(first + i * ATOM_BYTES)
            column = scales.toint() + 4 * (along * atoms + down)
            asm(None, f"{group}.32x128b.warpx4 [$0], $1;", column, descriptor, effects=True)

    @cute.jit
    def first_scale(self, block, work: Work):
        """Where in the atoms of B's scale factors those of this thread block's tile begin, as bytes of a lane
        of tensor memory: 32 columns' words are neighbours."""
        first = Int32(0)
        if cutlass.const_expr(self.sharers > 1):
            _, column, _ = self.tile_of(block, work)
            first = column % self.sharers * (self.tile[1] // 32 * 4)
        return first
