"""The program of `gemm` kernels with the mainloop tcgen05, in CuTe-DSL (templates/gemm/tcgen05.py.j2).

    warps 0 to 3   the epilogue: sums from tensor memory to D
    warp 4         the MMA: of a pair of thread blocks (2sm) the first one issues for both
    warp 5         loads A and B by TMA

Tensor memory holds the sums of two tiles, so that the next tile is multiplied while a tile is stored. A row
of a tile is a lane of tensor memory, and a thread of the epilogue. With swapped operands a tile's rows are
D's columns: neighbouring threads then store neighbouring elements, and TMA is not needed.
"""

from dataclasses import dataclass

import cutlass
from cutlass import BFloat16, Float16, Float32, Int32, Int64, cute, pipeline, utils
from cutlass._mlir.dialects import nvvm
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.cute.runtime import make_fake_stream, make_ptr
from cutlass.cutlass_dsl import dsl_user_op

TYPES = {
    "bf16": BFloat16,
    "f16": Float16,
    "f32": Float32,
    "tf32": cutlass.TFloat32,
    "e4m3": cutlass.Float8E4M3FN,
    "e5m2": cutlass.Float8E5M2,
    "s8": cutlass.Int8,
    "s32": Int32,
}
ADDENDS = (
    Float32,
    Float16,
    BFloat16,
)  # types of C and the bias, as tilewright_addend of gemm/args.h counts them
RELU, GELU, SILU = 1, 2, 3  # tilewright_activation

EPILOGUE_WARPS, MMA_WARP, LOAD_WARP = 4, 4, 5
EPILOGUE_THREADS = 32 * EPILOGUE_WARPS
THREADS = 32 * 6
STORING, ALLOCATED = 1, 2  # named barriers: of the epilogue's threads; of those that use tensor memory
SUMS = 2  # tiles whose sums tensor memory holds
VECTOR = 16  # bytes of a store to shared memory


@dsl_user_op
def before_barrier(*, loc=None, ip=None):
    """Orders this thread's accesses to tensor memory before those of threads that a barrier lets go on."""
    nvvm.tcgen05_fence(nvvm.Tcgen05FenceKind.BEFORE_THREAD_SYNC, loc=loc, ip=ip)


@dsl_user_op
def after_barrier(*, loc=None, ip=None):
    """Orders accesses to tensor memory that a barrier waited for before those of this thread."""
    nvvm.tcgen05_fence(nvvm.Tcgen05FenceKind.AFTER_THREAD_SYNC, loc=loc, ip=ip)


@dataclass(frozen=True)
class Gemm:
    """What a kernel is compiled for. A tile is that of a thread block."""

    a: str
    b: str
    d: str
    tile: tuple[int, int, int]
    cluster: tuple[int, int]
    sms: int  # thread blocks of an MMA
    stages: int
    subtile: int  # columns that a thread of the epilogue has at a time
    buffers: int  # of subtiles, on their way to D by TMA; 0 where threads store D
    shared_bytes: int
    swapped: bool

    # Parameters of the kernel's function, as PTX declares them: gemm/cute_dsl_host.hpp passes these.
    PARAMETERS = (
        *("b8[128]", "b8[12]") * 3, "u64", "u64", "u64", "f32", "f32", "u64", "u64", *("u32",) * 6,
        "u64", "u64", "u64", "u64", *("u32",) * 5,
    )  # fmt: skip

    @property
    def sums(self):
        """The type of the sums."""
        return Int32 if self.a == "s8" else Float32

    @property
    def tiler(self):
        """The tile of an MMA, which `sms` thread blocks share by its rows."""
        m, n, k = self.tile
        return m * self.sms, n, k

    @property
    def columns(self):
        """Columns of tensor memory that are allocated: a power of two, at least 32."""
        return max(32, 1 << (SUMS * self.tile[1] - 1).bit_length())

    def tiled_mma(self):
        """The MMA of a tile."""
        return utils.sm100.make_trivial_tiled_mma(
            TYPES[self.a],
            TYPES[self.b],
            OperandMajorMode.K,
            OperandMajorMode.K,
            self.sums,
            tcgen05.CtaGroup.TWO if self.sms == 2 else tcgen05.CtaGroup.ONE,
            self.tiler[:2],
        )

    def operands(self, tiled_mma):
        """The layouts of A and B in shared memory."""
        layout_a = utils.sm100.make_smem_layout_a(tiled_mma, self.tiler, TYPES[self.a], self.stages)
        layout_b = utils.sm100.make_smem_layout_b(tiled_mma, self.tiler, TYPES[self.b], self.stages)
        return layout_a, layout_b

    def results(self):
        """The layout of the buffers of D: rows of 64 or 128 bytes, which TMA swizzles."""
        kind = TYPES[self.d]
        kinds = tcgen05.SmemLayoutAtomKind
        swizzle = kinds.K_SW128 if self.subtile * kind.width == 1024 else kinds.K_SW64
        atom = tcgen05.make_smem_layout_atom(swizzle, kind)
        return cute.tile_to_shape(atom, (self.tile[0], self.subtile, self.buffers), order=(0, 1, 2))

    def blocks_of(self, tiled_mma):
        """The thread blocks of a cluster: (in an MMA, down, across, 1)."""
        return cute.tiled_divide(cute.make_layout((*self.cluster, 1)), (tiled_mma.thr_id.shape,))

    def storage(self):
        """Shared memory."""
        m, n, k = self.tile

        @cute.struct
        class Storage:
            ring: cute.struct.MemRange[Int64, 2 * self.stages]
            full_and_empty: cute.struct.MemRange[Int64, 2 * SUMS]
            columns: Int32  # the address of the columns of tensor memory
            d: cute.struct.Align[
                cute.struct.MemRange[TYPES[self.d], max(1, m * self.subtile * self.buffers)], 1024
            ]
            a: cute.struct.Align[cute.struct.MemRange[TYPES[self.a], m * k * self.stages], 1024]
            b: cute.struct.Align[cute.struct.MemRange[TYPES[self.b], n // self.sms * k * self.stages], 1024]

        assert Storage.size_in_bytes() == self.shared_bytes, (
            f"tilewright computed {self.shared_bytes} bytes of shared memory, "
            f"CuTe-DSL {Storage.size_in_bytes()}"
        )
        return Storage

    def loads(self, tiled_mma, a, b):
        """The TMA loads of A and B, each of the part that a thread block loads for those that share it."""
        layout_a, layout_b = self.operands(tiled_mma)
        blocks = self.blocks_of(tiled_mma)
        group = tcgen05.CtaGroup.TWO if self.sms == 2 else tcgen05.CtaGroup.ONE

        def op(sharers):
            multicast, single = cpasync.CopyBulkTensorTileG2SMulticastOp, cpasync.CopyBulkTensorTileG2SOp
            return (multicast if sharers > 1 else single)(group)

        down, across = self.cluster[0] // self.sms, self.cluster[1]
        stage = (None, None, None, 0)
        return (
            *cute.nvgpu.make_tiled_tma_atom_A(
                op(across), a, cute.slice_(layout_a, stage), self.tiler, tiled_mma, blocks.shape
            ),
            *cute.nvgpu.make_tiled_tma_atom_B(
                op(down), b, cute.slice_(layout_b, stage), self.tiler, tiled_mma, blocks.shape
            ),
        )

    @cute.jit
    def tile_of(self, block, blocks_m, blocks_n, swizzle, down):
        """Row, column and matrix of this thread block's tile of block `block`: the tiles of a cluster. A band
        takes `swizzle` neighbours (down D's rows, or across its columns), then advances by one in the
        other direction, as sm90/scheduler.hpp has it."""
        matrix = block // (blocks_m * blocks_n)
        within = block - matrix * (blocks_m * blocks_n)
        across, along = blocks_n, blocks_m
        if down != 0:
            across, along = blocks_m, blocks_n
        first = within // (swizzle * along) * swizzle
        width = cutlass.min(swizzle, across - first)
        rest = within - first * along
        row, column = rest // width, first + rest % width
        if down != 0:
            row, column = column, row
        rank = cute.arch.block_idx_in_cluster()
        high, wide = self.cluster
        return row * high + rank % high, column * wide + rank // high, matrix

    def first_block(self):
        """The first block of this thread block's cluster."""
        cluster, _, _ = cute.arch.cluster_idx()
        return cluster

    def next_block(self, block):
        """The block that the cluster computes next."""
        high, wide = self.cluster
        return block + cute.arch.grid_dim()[0] // (high * wide)

    @cute.jit
    def load(self, atom, source, target, barrier, mask, sharers: cutlass.Constexpr):
        if cutlass.const_expr(sharers > 1):
            cute.copy(atom, source, target, tma_bar_ptr=barrier, mcast_mask=mask)
        else:
            cute.copy(atom, source, target, tma_bar_ptr=barrier)

    @cute.jit
    def add(self, values, kind, address, row, column, first, stride, m, n, factor):
        """Adds factor * an addend of type `kind` to a thread's values, from column `first` on. Elements
        outside of D are read from its edge, and never stored."""
        size = kind.width // 8
        for i in cutlass.range_constexpr(self.subtile):
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
            for i in cutlass.range_constexpr(self.subtile):
                values[i] = cutlass.max(values[i], self.sums(0))
        if cutlass.const_expr(self.sums is Float32):
            if activation == GELU:
                for i in cutlass.range_constexpr(self.subtile):
                    values[i] = 0.5 * values[i] * (1.0 + cute.math.erf(values[i] * 0.7071067811865476))
            if activation == SILU:
                for i in cutlass.range_constexpr(self.subtile):
                    values[i] = values[i] / (1.0 + cute.math.exp(-values[i]))

    @cute.kernel
    def kernel(
        self,
        tma_a: cute.CopyAtom,
        a: cute.Tensor,
        tma_b: cute.CopyAtom,
        b: cute.Tensor,
        tma_d: cute.CopyAtom,
        d: cute.Tensor,
        c: cute.Pointer,
        ld_c: Int64,
        batch_stride_c: Int64,
        alpha: Float32,
        beta: Float32,
        scale_a: cute.Pointer,
        scale_b: cute.Pointer,
        k_tiles: Int32,
        blocks_m: Int32,
        blocks_n: Int32,
        blocks: Int32,
        swizzle: Int32,
        down: Int32,
        d_elements: cute.Pointer,
        ld_d: Int64,
        batch_stride_d: Int64,
        bias: cute.Pointer,
        type_c: Int32,
        type_bias: Int32,
        activation: Int32,
        m: Int32,
        n: Int32,
    ):
        thread, _, _ = cute.arch.thread_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        high, wide = self.cluster
        tiled_mma = self.tiled_mma()
        cluster = self.blocks_of(tiled_mma)
        rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
        place = cluster.get_flat_coord(rank)  # (in an MMA, down, across, 0)
        issues = place[0] == 0

        if warp == LOAD_WARP:
            cpasync.prefetch_descriptor(tma_a)
            cpasync.prefetch_descriptor(tma_b)
            if cutlass.const_expr(not self.swapped):
                cpasync.prefetch_descriptor(tma_d)

        memory = cutlass.utils.SmemAllocator().allocate(self.storage())
        layout_a, layout_b = self.operands(tiled_mma)
        stages_a = memory.a.get_tensor(layout_a.outer, swizzle=layout_a.inner)
        stages_b = memory.b.get_tensor(layout_b.outer, swizzle=layout_b.inner)

        # A stage is free when the MMAs of each thread block that it serves are done.
        tile_m, tile_n, tile_k = self.tile
        ring = pipeline.PipelineTmaUmma.create(
            num_stages=self.stages,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, high // self.sms + wide - 1),
            tx_count=(tile_m * self.sms + tile_n) * tile_k * TYPES[self.a].width // 8,
            barrier_storage=memory.ring.data_ptr(),
            cta_layout_vmnk=cluster,
        )
        sums_ready = pipeline.PipelineUmmaAsync.create(
            num_stages=SUMS,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, EPILOGUE_WARPS * self.sms),
            barrier_storage=memory.full_and_empty.data_ptr(),
            cta_layout_vmnk=cluster,
        )

        # [part of a tile, tile's row or column, k tile, matrix] in global memory, [part, stage] in shared
        # memory.
        slices = tiled_mma.get_slice(place[0])
        tiles_a = slices.partition_A(cute.local_tile(a, self.tiler[::2], (None, None, None)))
        tiles_b = slices.partition_B(cute.local_tile(b, self.tiler[1:], (None, None, None)))
        to_a, from_a = cpasync.tma_partition(
            tma_a,
            place[2],
            cute.make_layout(wide),
            cute.group_modes(stages_a, 0, 3),
            cute.group_modes(tiles_a, 0, 3),
        )
        to_b, from_b = cpasync.tma_partition(
            tma_b,
            place[1],
            cute.make_layout(high // self.sms),
            cute.group_modes(stages_b, 0, 3),
            cute.group_modes(tiles_b, 0, 3),
        )
        operand_a, operand_b = tiled_mma.make_fragment_A(stages_a), tiled_mma.make_fragment_B(stages_b)
        shape = tiled_mma.partition_shape_C(self.tiler[:2])
        all_sums = tiled_mma.make_fragment_C(cute.append(shape, SUMS))

        # No tensor memory before the kernel ahead is done, which may hold some.
        cute.arch.griddepcontrol_wait()
        pair = self.sms == 2
        if warp == 0:
            cute.arch.alloc_tmem(self.columns, memory.columns.ptr, is_two_cta=pair)
            cute.arch.relinquish_tmem_alloc_permit(is_two_cta=pair)
            before_barrier()

        if warp == LOAD_WARP:
            mask_a = cpasync.create_tma_multicast_mask(cluster, place, mcast_mode=2)
            mask_b = cpasync.create_tma_multicast_mask(cluster, place, mcast_mode=1)
            write = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, self.stages)
            block = self.first_block()
            while block < blocks:
                row, column, matrix = self.tile_of(block, blocks_m, blocks_n, swizzle, down)
                matrix_a = cutlass.min(matrix, cute.size(a, mode=[2]) - 1)  # one may serve all
                matrix_b = cutlass.min(matrix, cute.size(b, mode=[2]) - 1)
                for k_tile in cutlass.range(k_tiles, unroll=1):
                    ring.producer_acquire(write)
                    full, stage = ring.producer_get_barrier(write), (None, write.index)
                    source_a = from_a[None, row // self.sms, k_tile, matrix_a]
                    source_b = from_b[None, column, k_tile, matrix_b]
                    self.load(tma_a, source_a, to_a[stage], full, mask_a, wide)
                    self.load(tma_b, source_b, to_b[stage], full, mask_b, high // self.sms)
                    write.advance()
                block = self.next_block(block)
            ring.producer_tail(write)

        if warp == MMA_WARP:
            cute.arch.barrier(barrier_id=ALLOCATED, number_of_threads=EPILOGUE_THREADS + 32)
            after_barrier()
            address = cute.arch.retrieve_tmem_ptr(self.sums, 16, memory.columns.ptr)
            products = cute.make_tensor(address, all_sums.layout)
            read = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, self.stages)
            fill = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, SUMS)
            if issues:
                block = self.first_block()
                while block < blocks:
                    sums_ready.producer_acquire(fill)
                    after_barrier()
                    sums = products[None, None, None, fill.index]
                    tiled_mma.set(tcgen05.Field.ACCUMULATE, False)
                    for _ in cutlass.range(k_tiles, unroll=1):
                        ring.consumer_wait(read)
                        for step in cutlass.range_constexpr(cute.size(operand_a, mode=[2])):
                            at = (None, None, step, read.index)
                            cute.gemm(tiled_mma, sums, operand_a[at], operand_b[at], sums)
                            tiled_mma.set(tcgen05.Field.ACCUMULATE, True)
                        ring.consumer_release(read)
                        read.advance()
                    sums_ready.producer_commit(fill)
                    fill.advance()
                    block = self.next_block(block)
                sums_ready.producer_tail(fill)

        if warp < EPILOGUE_WARPS:
            cute.arch.barrier(barrier_id=ALLOCATED, number_of_threads=EPILOGUE_THREADS + 32)
            after_barrier()
            address = cute.arch.retrieve_tmem_ptr(self.sums, 16, memory.columns.ptr)
            products = cute.make_tensor(address, all_sums.layout)
            # [row, column, 0, subtile, tile]
            parts = cute.flat_divide(products[(None, None), 0, 0, None], (tile_m, self.subtile))
            copying = tcgen05.make_tmem_copy(
                cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition(self.subtile)), self.sums),
                parts[None, None, 0, 0, 0],
            )
            source = copying.get_slice(thread).partition_S(parts)
            target = copying.get_slice(thread).partition_D(cute.make_identity_tensor((tile_m, self.subtile)))
            values = cute.make_rmem_tensor(target.shape, self.sums)

            factor = self.sums(alpha)
            if cutlass.const_expr(self.sums is Float32):
                if scale_a.toint() != 0:
                    factor *= cute.make_tensor(scale_a, cute.make_layout(1))[0]
                if scale_b.toint() != 0:
                    factor *= cute.make_tensor(scale_b, cute.make_layout(1))[0]
            size_of_c = Int64(4)  # bytes
            if type_c == 1 or type_c == 2:
                size_of_c = Int64(2)
            parts_of_tile = tile_n // self.subtile
            read = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, SUMS)
            block = self.first_block()
            while block < blocks:
                row, column, matrix = self.tile_of(block, blocks_m, blocks_n, swizzle, down)
                own = row * tile_m + thread  # D's row; of a swapped kernel its column
                inner_row, inner_column = cutlass.min(own, m - 1), cutlass.min(own, n - 1)
                sums_ready.consumer_wait(read)
                after_barrier()
                for part in cutlass.range(parts_of_tile, unroll=1):
                    cute.copy(copying, source[None, None, None, 0, part, read.index], values)
                    cute.arch.fence_view_async_tmem_load()
                    if part == parts_of_tile - 1:
                        before_barrier()
                        with cute.arch.elect_one():
                            sums_ready.consumer_release(read)
                    first = column * tile_n + part * self.subtile
                    for i in cutlass.range_constexpr(self.subtile):
                        values[i] = values[i] * factor
                    if beta != 0.0:
                        at_c = c.toint() + size_of_c * batch_stride_c * matrix
                        self.add_typed(
                            values, type_c, at_c, inner_row, inner_column, first, ld_c, m, n, self.sums(beta)
                        )
                    if bias.toint() != 0:
                        self.add_typed(
                            values,
                            type_bias,
                            bias.toint(),
                            Int32(0),
                            inner_column,
                            first,
                            Int64(0),
                            m,
                            n,
                            self.sums(1),
                        )
                    self.activate(values, activation)
                    if cutlass.const_expr(self.swapped):
                        self.store(d_elements, batch_stride_d * matrix, ld_d, own, first, m, n, values)
                    else:
                        self.store_by_tma(
                            tma_d,
                            d,
                            memory,
                            warp,
                            thread,
                            row,
                            column * parts_of_tile + part,
                            matrix,
                            part,
                            values,
                        )
                read.advance()
                block = self.next_block(block)
            if cutlass.const_expr(not self.swapped):
                if warp == 0:
                    cute.arch.cp_async_bulk_wait_group(0, read=True)

        # A neighbour's MMAs and barriers may use this thread block's memory until here.
        if cutlass.const_expr(high * wide > 1):
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
        else:
            cute.arch.sync_threads()
        if warp == 0:
            address = cute.arch.retrieve_tmem_ptr(self.sums, 16, memory.columns.ptr)
            cute.arch.dealloc_tmem(address, self.columns, is_two_cta=pair)

    @cute.jit
    def store(self, d, matrix, ld_d, column, first, m, n, values):
        """Stores a column of a swapped tile, whose rows begin at `first`."""
        kind = TYPES[self.d]
        if column < n:
            for i in cutlass.range_constexpr(self.subtile):
                if first + i < m:
                    address = d.toint() + kind.width // 8 * (matrix + ld_d * (first + i) + column)
                    pointer = cute.make_ptr(
                        kind, address, cute.AddressSpace.gmem, assumed_align=kind.width // 8
                    )
                    cute.make_tensor(pointer, cute.make_layout(1))[0] = values[i].to(kind)

    @cute.jit
    def store_by_tma(self, tma_d, d, memory, warp, thread, row, column, matrix, part, values):
        """Stores a subtile through a buffer in shared memory."""
        layout = self.results()
        buffers = memory.d.get_tensor(layout.outer, swizzle=layout.inner)
        buffer = part % self.buffers
        if warp == 0:  # the store that read this buffer is done: at most buffers - 1 later ones are not
            cute.arch.cp_async_bulk_wait_group(self.buffers - 1, read=True)
        cute.arch.barrier(barrier_id=STORING, number_of_threads=EPILOGUE_THREADS)
        kind = TYPES[self.d]
        rounded = cute.make_rmem_tensor((self.subtile,), kind)
        for i in cutlass.range_constexpr(self.subtile):
            rounded[i] = values[i].to(kind)
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

    @cute.jit
    def program(
        self,
        a: cute.Pointer,
        b: cute.Pointer,
        d: cute.Pointer,
        any_type: cute.Pointer,
        scale: cute.Pointer,
        extent: Int32,
        stride: Int64,
        factor: Float32,
        stream,
    ):
        """Declares the kernel. Its values are never used: gemm/cute_dsl_host.hpp launches the kernel."""
        aligned = cute.assume(stride, divby=16)  # to 16 bytes at least, for TMA
        layout = cute.make_layout((extent, extent, extent), stride=(aligned, 1, aligned))
        tma_a, tensor_a, tma_b, tensor_b = self.loads(
            self.tiled_mma(), cute.make_tensor(a, layout), cute.make_tensor(b, layout)
        )
        tma_d, tensor_d = tma_a, tensor_a  # of a swapped kernel: unused
        if cutlass.const_expr(not self.swapped):
            tma_d, tensor_d = cpasync.make_tiled_tma_atom(
                cpasync.CopyBulkTensorTileS2GOp(),
                cute.make_tensor(d, layout),
                cute.slice_(self.results(), (None, None, 0)),
                (self.tile[0], self.subtile),
            )
        self.kernel(
            tma_a, tensor_a, tma_b, tensor_b, tma_d, tensor_d, any_type, stride, stride, factor, factor,
            scale, scale, extent, extent, extent, extent, extent, extent, any_type, stride, stride, any_type,
            extent, extent, extent, extent, extent,
        ).launch(
            grid=(extent, 1, 1),
            block=(THREADS, 1, 1),
            cluster=(self.cluster[0] * self.cluster[1], 1, 1),
            smem=self.shared_bytes,
            min_blocks_per_mp=1,
            stream=stream,
        )  # fmt: skip

    def arguments(self):
        """Values of `program`'s parameters, of which their types count."""

        def pointer(kind, align=16):
            return make_ptr(kind, 16, cute.AddressSpace.gmem, assumed_align=align)

        return (
            pointer(TYPES[self.a]), pointer(TYPES[self.b]), pointer(TYPES[self.d]), pointer(cutlass.Int8, 1),
            pointer(Float32, 4), Int32(1), Int64(16), Float32(1.0), make_fake_stream(),
        )  # fmt: skip


Program = Gemm
