"""The epilogue of block-scaled kernels of tcgen05.

Tensor memory has 512 columns. Two tiles' sums of 128 columns leave room for the scale factors. Of 256 columns
they overlap by as many columns as the scale factors take: the epilogue stores the shared columns of a tile
first, and gives them to the next tile's MMAs before it stores the others.
"""

from dataclasses import dataclass
from typing import NamedTuple

import cutlass
from cutlass import Int32, Int64, cute, pipeline
from tilewright_programs.blockscaled_gemm.tcgen05_scales import Scales
from tilewright_programs.gemm.tcgen05_results import Added, Results, Target
from tilewright_programs.gemm.tcgen05_tiles import SUMS, TYPES, Work, after_barrier, before_barrier

TENSOR_MEMORY = 512  # columns


class Elements(NamedTuple):
    """D, whose elements threads store."""

    first: cute.Pointer
    leading: Int64
    batch_stride: Int64
    m: Int32
    n: Int32


@dataclass(frozen=True)
class Stores(Scales):
    """The epilogue of a kernel."""

    store_bytes: int  # that a thread stores at a time, if threads store D
    activates: bool  # whether a call may name an activation

    @property
    def by_tma(self):
        """Whether TMA stores D: if not, threads do."""
        return self.buffers > 0

    @property
    def overlaps(self):
        """Whether two tiles' sums overlap."""
        return SUMS * self.tile[1] + sum(self.scale_columns) > TENSOR_MEMORY

    @property
    def pending(self):
        """Tiles whose sums the MMA may have begun while an earlier tile is stored."""
        return 1 if self.overlaps else SUMS

    @property
    def pitch(self):
        """Columns of tensor memory from a tile's sums to the next one's."""
        return self.tile[1] - (sum(self.scale_columns) if self.overlaps else 0)

    @property
    def columns(self):
        """Columns of tensor memory that are allocated: a power of two."""
        used = self.pitch + self.tile[1] + sum(self.scale_columns)
        return 1 << (used - 1).bit_length()

    @cute.jit
    def store_tiles(self, warp, thread, memory, products, sums_ready, work: Work, added: Added, to: Target):
        """The epilogue's warps: each tile from tensor memory to D. Of overlapping sums the first tile's last
        columns are the second one's first."""
        copying, source, values = self.subtiles(thread, products)
        factor, size_of_c = self.factor(added), self.size_of_c(added)
        parts = self.tile[1] // self.subtile
        last_shared = parts - 1
        if cutlass.const_expr(self.overlaps):
            last_shared = -(-sum(self.scale_columns) // self.subtile) - 1
        read = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, self.pending)
        turn, block = Int32(0), self.first_block()
        while block < work.blocks:
            place = self.tile_of(block, work)
            rows = self.rows(place, thread, to)
            sums_ready.consumer_wait(read)
            after_barrier()
            for step in cutlass.range(parts, unroll=1):
                part = step
                if cutlass.const_expr(self.overlaps):
                    part = step if turn == 1 else parts - 1 - step
                cute.copy(copying, source[None, None, None, 0, part, turn], values)
                cute.arch.fence_view_async_tmem_load()
                if step == last_shared:
                    before_barrier()
                    with cute.arch.elect_one():
                        sums_ready.consumer_release(read)
                self.finish(values, factor, size_of_c, place, rows, part * self.subtile, added, to)
                self.store_subtile(values, warp, thread, memory, place, rows, part, step, to)
            read.advance()
            turn = 1 - turn
            block = self.next_block(block)
        self.drain(warp)

    @cute.jit
    def activate(self, values, activation):
        """Applies the activation that the call names, if the kernel knows any: they double its code."""
        if cutlass.const_expr(self.activates):
            Results.activate(self, values, activation)

    @cute.jit
    def store_by_tma(self, tma_d, d, memory, warp, thread, row, column, matrix, step, values):
        """Stores a subtile by TMA; if `d` is `Elements`, each thread stores its row."""
        if cutlass.const_expr(self.by_tma):
            Results.store_by_tma(self, tma_d, d, memory, warp, thread, row, column, matrix, step, values)
        else:
            self.store_row(d, row * self.tile[0] + thread, column * self.subtile, matrix, values)

    @cute.jit
    def store_row(self, d: Elements, row, first, matrix, values):
        """Stores a row of a subtile, whose columns begin at `first`, `store_bytes` at a time. D's rows are
        multiples of as many bytes."""
        kind, rounded = TYPES[self.d], self.rounded(values)
        count = 8 * self.store_bytes // kind.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), kind, num_bits_per_copy=8 * self.store_bytes)
        if row < d.m:
            for start in cutlass.range_constexpr(0, self.subtile, count):
                if first + start < d.n:
                    index = d.batch_stride * matrix + d.leading * row + first + start
                    address = d.first.toint() + kind.width // 8 * index
                    pointer = cute.make_ptr(
                        kind, address, cute.AddressSpace.gmem, assumed_align=self.store_bytes
                    )
                    part = cute.make_tensor(rounded.iterator + start, cute.make_layout(count))
                    cute.copy(atom, part, cute.make_tensor(pointer, cute.make_layout(count)))
