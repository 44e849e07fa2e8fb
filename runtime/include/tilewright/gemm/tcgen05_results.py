"""The epilogue of matrix products by tcgen05: it adds C and the bias to the sums, applies the activation, and
stores D.

A row of a tile is a lane of tensor memory, and a thread of the epilogue. With swapped operands a tile's rows
are D's columns: neighbouring threads then store neighbouring elements, and TMA is not needed.
"""

from typing import NamedTuple

import cutlass
from cutlass import BFloat16, Float16, Float32, Int32, Int64, cute, pipeline
from cutlass.cute.nvgpu import cpasync, tcgen05
from tilewright_programs.gemm.tcgen05_tiles import (
    EPILOGUE_THREADS,
    STORING,
    SUMS,
    TYPES,
    Tiles,
    Work,
    after_barrier,
    before_barrier,
)

ADDENDS = (
    Float32,
    Float16,
    BFloat16,
)  # types of C and the bias, as tilewright_addend of gemm/args.h counts them
RELU, GELU, SILU = 1, 2, 3  # tilewright_activation
VECTOR = 16  # bytes of a store to shared memory


class Added(NamedTuple):
    """What a call adds to the products, and multiplies them by."""

    c: cute.Pointer
    ld_c: Int64
    batch_stride_c: Int64
    alpha: Float32
    beta: Float32
    scale_a: cute.Pointer  # null if there is none
    scale_b: cute.Pointer
    bias: cute.Pointer
    type_c: Int32
    type_bias: Int32
    activation: Int32


class Target(NamedTuple):
    """Where D lies: for TMA, and for threads that store elements."""

    tma_d: cute.CopyAtom
    d: cute.Tensor
    d_elements: cute.Pointer
    ld_d: Int64
    batch_stride_d: Int64
    m: Int32
    n: Int32


class Results(Tiles):
    """The epilogue of a kernel."""

    @cute.jit
    def add(self, values, kind, address, row, column, first, stride, m, n, factor):
        """Adds factor * an addend of type `kind` to a thread's values, from column `first` on. Elements
        outside of D are read from its edge, and never stored."""
        size = kind.width // 8
        for i in cutlass.range_constexpr(cute.size(values)):
            if cutlass.const_expr(self.swapped):
                index = stride * cutlass.min(first + i, m - 1) + column
            else:
                index = stride * row + cutlass.min(first + i, n - 1)
            pointer = cute.make_ptr(kind, address + size * index, cute.AddressSpace.gmem, assumed_align=size)
            element = cute.make_tensor(pointer, cute.make_layout(1))[0]
            values[i] = values[i] + factor * element.to(self.sums)

    @cute.jit
    def add_typed(self, values, type_of_addend, address, row, column, first, stride, m, n, factor):
        """`add`, of a type that the call says."""
        if cutlass.const_expr(self.sums is Int32):
            self.add(values, Int32, address, row, column, first, stride, m, n, factor)
        else:
            for known in cutlass.range_constexpr(len(ADDENDS)):
                if type_of_addend == known:
                    self.add(values, ADDENDS[known], address, row, column, first, stride, m, n, factor)

    @cute.jit
    def activate(self, values, activation):
        """Applies the activation that the call names to a thread's values."""
        if activation == RELU:
            for i in cutlass.range_constexpr(cute.size(values)):
                values[i] = cutlass.max(values[i], self.sums(0))
        if cutlass.const_expr(self.sums is Float32):
            if activation == GELU:
                for i in cutlass.range_constexpr(cute.size(values)):
                    values[i] = 0.5 * values[i] * (1.0 + cute.math.erf(values[i] * 0.7071067811865476))
            if activation == SILU:
                for i in cutlass.range_constexpr(cute.size(values)):
                    values[i] = values[i] / (1.0 + cute.math.exp(-values[i]))

    @cute.jit
    def factor(self, added: Added):
        """What the products are multiplied by."""
        factor = self.sums(added.alpha)
        if cutlass.const_expr(self.sums is Float32):
            if added.scale_a.toint() != 0:
                factor *= cute.make_tensor(added.scale_a, cute.make_layout(1))[0]
            if added.scale_b.toint() != 0:
                factor *= cute.make_tensor(added.scale_b, cute.make_layout(1))[0]
        return factor

    @cute.jit
    def size_of_c(self, added: Added):
        """Bytes of an element of C."""
        size = Int64(4)
        if added.type_c == 1 or added.type_c == 2:
            size = Int64(2)
        return size

    def subtiles(self, thread, products):
        """The copy of a thread's part of a subtile from tensor memory, its sources, and its target in
        registers: `products` as [row, column, 0, subtile, tile]."""
        tile_m = self.tile[0]
        parts = cute.flat_divide(products[(None, None), 0, 0, None], (tile_m, self.subtile))
        copying = tcgen05.make_tmem_copy(
            cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition(self.subtile)), self.sums),
            parts[None, None, 0, 0, 0],
        )
        source = copying.get_slice(thread).partition_S(parts)
        target = copying.get_slice(thread).partition_D(cute.make_identity_tensor((tile_m, self.subtile)))
        return copying, source, cute.make_rmem_tensor(target.shape, self.sums)

    @cute.jit
    def store_tiles(self, warp, thread, memory, products, sums_ready, work: Work, added: Added, to: Target):
        """Each tile from tensor memory to D."""
        copying, source, values = self.subtiles(thread, products)
        factor, size_of_c = self.factor(added), self.size_of_c(added)
        parts_of_tile = self.tile[1] // self.subtile
        read = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, SUMS)
        block = self.first_block()
        while block < work.blocks:
            place = self.tile_of(block, work)
            rows = self.rows(place, thread, to)
            sums_ready.consumer_wait(read)
            after_barrier()
            for part in cutlass.range(parts_of_tile, unroll=1):
                cute.copy(copying, source[None, None, None, 0, part, read.index], values)
                cute.arch.fence_view_async_tmem_load()
                if part == parts_of_tile - 1:
                    before_barrier()
                    with cute.arch.elect_one():
                        sums_ready.consumer_release(read)
                self.finish(values, factor, size_of_c, place, rows, part * self.subtile, added, to)
                self.store_subtile(values, warp, thread, memory, place, rows, part, part, to)
            read.advance()
            block = self.next_block(block)
        self.drain(warp)

    @cute.jit
    def drain(self, warp):
        """Waits until TMA has read all buffers."""
        if cutlass.const_expr(not self.swapped):
            if warp == 0:
                cute.arch.cp_async_bulk_wait_group(0, read=True)

    def rows(self, place, thread, to: Target):
        """A thread's row of D, or of a swapped kernel its column; and the same, within D."""
        own = place[0] * self.tile[0] + thread
        return own, cutlass.min(own, to.m - 1), cutlass.min(own, to.n - 1)

    @cute.jit
    def finish(self, values, factor, size_of_c, place, rows, start, added: Added, to: Target):
        """Makes elements of D of a thread's sums, which are those of the tile at `place` from its column
        `start` on."""
        _, column, matrix = place
        _, inner_row, inner_column = rows
        first = column * self.tile[1] + start
        self.scale_sums(values, factor)
        if added.beta != 0.0:
            at_c = added.c.toint() + size_of_c * added.batch_stride_c * matrix
            self.add_typed(
                values, added.type_c, at_c, inner_row, inner_column, first, added.ld_c, to.m, to.n,
                self.sums(added.beta),
            )  # fmt: skip
        if added.bias.toint() != 0:
            self.add_typed(
                values, added.type_bias, added.bias.toint(), Int32(0), inner_column, first, Int64(0),
                to.m, to.n, self.sums(1),
            )  # fmt: skip
        self.activate(values, added.activation)

    @cute.jit
    def scale_sums(self, values, factor):
        """Multiplies a thread's sums by `factor`, two floats with an instruction."""
        for i in cutlass.range_constexpr(0, cute.size(values), 2):
            if cutlass.const_expr(self.sums is Float32):
                values[i], values[i + 1] = cute.arch.mul_packed_f32x2(
                    (values[i], values[i + 1]), (factor, factor)
                )
            else:
                values[i], values[i + 1] = values[i] * factor, values[i + 1] * factor

    @cute.jit
    def store_subtile(self, values, warp, thread, memory, place, rows, part, step, to: Target):
        """Stores subtile `part` of the tile at `place`. `step` counts the tile's subtiles in the order in
        which they are stored."""
        row, column, matrix = place
        if cutlass.const_expr(self.swapped):
            first = column * self.tile[1] + part * self.subtile
            self.store(to.d_elements, to.batch_stride_d * matrix, to.ld_d, rows[0], first, to.m, to.n, values)
        else:
            subtile = column * (self.tile[1] // self.subtile) + part
            self.store_by_tma(to.tma_d, to.d, memory, warp, thread, row, subtile, matrix, step, values)

    @cute.jit
    def rounded(self, values):
        """A thread's values as elements of D."""
        rounded = cute.make_rmem_tensor((cute.size(values),), TYPES[self.d])
        flat = cute.make_tensor(values.iterator, cute.make_layout(cute.size(values)))
        rounded.store(flat.load().to(TYPES[self.d]))
        return rounded

    @cute.jit
    def store(self, d, matrix, ld_d, column, first, m, n, values):
        """Stores a column of a swapped tile, whose rows begin at `first`."""
        kind = TYPES[self.d]
        rounded = self.rounded(values)
        if column < n:
            for i in cutlass.range_constexpr(cute.size(values)):
                if first + i < m:
                    address = d.toint() + kind.width // 8 * (matrix + ld_d * (first + i) + column)
                    pointer = cute.make_ptr(
                        kind, address, cute.AddressSpace.gmem, assumed_align=kind.width // 8
                    )
                    cute.make_tensor(pointer, cute.make_layout(1))[0] = rounded[i]

    @cute.jit
    def store_by_tma(self, tma_d, d, memory, warp, thread, row, column, matrix, step, values):
        """Stores a subtile through a buffer in shared memory."""
        layout = self.results()
        buffers = memory.d.get_tensor(layout.outer, swizzle=layout.inner)
        buffer = step % self.buffers
        if warp == 0:  # the store that read this buffer is done: at most buffers - 1 later ones are not
            cute.arch.cp_async_bulk_wait_group(self.buffers - 1, read=True)
        cute.arch.barrier(barrier_id=STORING, number_of_threads=EPILOGUE_THREADS)
        kind, rounded = TYPES[self.d], self.rounded(values)
        vector = (8 * VECTOR // kind.width,)
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), kind, num_bits_per_copy=8 * VECTOR)
        cute.copy(
            atom,
            cute.zipped_divide(rounded, vector),
            cute.zipped_divide(buffers[thread, None, buffer], vector),
        )
        cute.arch.fence_proxy("async.shared", space="cta")
        cute.arch.barrier(barrier_id=STORING, number_of_threads=EPILOGUE_THREADS)
        if warp == 0:
            tiles = cute.group_modes(
                cute.local_tile(d, (self.tile[0], self.subtile), (None, None, None)), 0, 2
            )
            source, target = cpasync.tma_partition(
                tma_d, 0, cute.make_layout(1), cute.group_modes(buffers, 0, 2), tiles
            )
            cute.copy(tma_d, source[None, buffer], target[None, row, column, matrix])
            cute.arch.cp_async_bulk_commit_group()
