"""Tiles of matrix products by tcgen05: what a kernel is compiled for, the layouts of its memory, and the
order in which thread blocks compute tiles. Programs derive from `Tiles`.

    warps 0 to 3   the epilogue: sums from tensor memory to D
    warp 4         the MMA: of a pair of thread blocks (2sm) the first one issues for both
    warp 5         loads A and B by TMA
"""

from dataclasses import dataclass
from typing import NamedTuple

import cutlass
from cutlass import BFloat16, Float16, Float32, Int32, Int64, cute, pipeline, utils
from cutlass._mlir.dialects import nvvm
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.cutlass_dsl import dsl_user_op

TYPES = {
    "bf16": BFloat16,
    "f16": Float16,
    "f32": Float32,
    "tf32": cutlass.TFloat32,
    "e4m3": cutlass.Float8E4M3FN,
    "e5m2": cutlass.Float8E5M2,
    "e2m1": cutlass.Float4E2M1FN,
    "s8": cutlass.Int8,
    "s32": Int32,
}

EPILOGUE_WARPS, MMA_WARP, LOAD_WARP = 4, 4, 5
EPILOGUE_THREADS = 32 * EPILOGUE_WARPS
THREADS = 32 * 6
STORING, ALLOCATED = 1, 2  # named barriers: of the epilogue's threads; of those that use tensor memory
SUMS = 2  # tiles whose sums tensor memory holds


@dsl_user_op
def before_barrier(*, loc=None, ip=None):
    """Orders this thread's accesses to tensor memory before those of threads that a barrier lets go on."""
    nvvm.tcgen05_fence(nvvm.Tcgen05FenceKind.BEFORE_THREAD_SYNC, loc=loc, ip=ip)


@dsl_user_op
def after_barrier(*, loc=None, ip=None):
    """Orders accesses to tensor memory that a barrier waited for before those of this thread."""
    nvvm.tcgen05_fence(nvvm.Tcgen05FenceKind.AFTER_THREAD_SYNC, loc=loc, ip=ip)


class Work(NamedTuple):
    """The tiles of a launch. A block is the tiles of a cluster."""

    first_k: Int32  # the first k tile of this thread block's sums
    k_tiles: Int32  # their number
    blocks_m: Int32  # of a matrix
    blocks_n: Int32
    blocks: Int32  # of all matrices
    swizzle: Int32
    down: Int32  # see `Tiles.tile_of`


@dataclass(frozen=True)
class Tiles:
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
    splits: bool  # whether the thread blocks of a launch's cluster may share a tile along k

    K_UNIT = 1  # k tiles that are multiplied together

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
    def pending(self):
        """Tiles whose sums the MMA may have begun while an earlier tile is stored."""
        return SUMS

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

    def parts(self, tiled_mma, place, tma_a, a, tma_b, b, stages_a, stages_b):
        """What this thread block loads of A and of B: [part of a tile, tile's row or column, k tile, matrix]
        in global memory and [part, stage] in shared memory."""
        high, wide = self.cluster
        slices = tiled_mma.get_slice(place[0])
        tiles_a = slices.partition_A(cute.local_tile(a, self.tiler[::2], (None, None, None)))
        tiles_b = slices.partition_B(cute.local_tile(b, self.tiler[1:], (None, None, None)))
        loads = []
        for tma, tiles, stages, own, sharers in (
            (tma_a, tiles_a, stages_a, place[2], wide),
            (tma_b, tiles_b, stages_b, place[1], high // self.sms),
        ):
            target, source = cpasync.tma_partition(
                tma,
                own,
                cute.make_layout(sharers),
                cute.group_modes(stages, 0, 3),
                cute.group_modes(tiles, 0, 3),
            )
            loads.append((tma, source, target))
        return loads

    @cute.jit
    def work(self, k_tiles, blocks_m, blocks_n, blocks, swizzle, down):
        """The tiles of a launch, and the k tiles that are this thread block's."""
        first = Int32(0)
        if cutlass.const_expr(self.splits):
            rank, size = cute.arch.block_idx_in_cluster(), cute.arch.cluster_size()
            units = k_tiles // self.K_UNIT
            first = units * rank // size * self.K_UNIT
            k_tiles = units * (rank + 1) // size * self.K_UNIT - first
        return Work(first, k_tiles, blocks_m, blocks_n, blocks, swizzle, down)

    @cute.jit
    def tile_of(self, block, work: Work):
        """Row, column and matrix of this thread block's tile of block `block`: the tiles of a cluster. A band
        takes `swizzle` neighbours (down D's rows, or across its columns), then advances by one in the
        other direction, as sm90/scheduler.hpp has it."""
        matrix = block // (work.blocks_m * work.blocks_n)
        within = block - matrix * (work.blocks_m * work.blocks_n)
        across, along = work.blocks_n, work.blocks_m
        if work.down != 0:
            across, along = work.blocks_m, work.blocks_n
        first = within // (work.swizzle * along) * work.swizzle
        width = cutlass.min(work.swizzle, across - first)
        rest = within - first * along
        row, column = rest // width, first + rest % width
        if work.down != 0:
            row, column = column, row
        high, wide = self.cluster
        if cutlass.const_expr(high * wide > 1):
            rank = cute.arch.block_idx_in_cluster()
            row, column = row * high + rank % high, column * wide + rank // high
        return row, column, matrix

    def first_block(self):
        """The first block of this thread block's cluster."""
        cluster, _, _ = cute.arch.cluster_idx()
        return cluster

    def next_block(self, block):
        """The block that the cluster computes next."""
        clusters, _, _ = cute.arch.cluster_dim()
        return block + clusters

    @cute.jit
    def meet(self):
        """A barrier of the cluster's thread blocks, or of this one's threads if it is alone."""
        high, wide = self.cluster
        if cutlass.const_expr(high * wide > 1 or self.splits):
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
        else:
            cute.arch.sync_threads()

    @cute.jit
    def allocate(self, warp, memory):
        """Waits for the kernel ahead, which may hold tensor memory, then allocates."""
        cute.arch.griddepcontrol_wait()
        if warp == 0:
            cute.arch.alloc_tmem(self.columns, memory.columns.ptr, is_two_cta=self.sms == 2)
            cute.arch.relinquish_tmem_alloc_permit(is_two_cta=self.sms == 2)
            before_barrier()

    @cute.jit
    def give_back(self, warp, memory):
        """Gives tensor memory back. A neighbour's MMAs and barriers may use this thread block's memory until
        here."""
        self.meet()
        if warp == 0:
            address = cute.arch.retrieve_tmem_ptr(self.sums, 16, memory.columns.ptr)
            cute.arch.dealloc_tmem(address, self.columns, is_two_cta=self.sms == 2)

    def ring(self, barriers, cluster, stage_bytes):
        """The pipeline of stages, each of `stage_bytes` bytes. A stage is free when the MMAs of each thread
        block that it serves are done."""
        high, wide = self.cluster
        return pipeline.PipelineTmaUmma.create(
            num_stages=self.stages,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, high // self.sms + wide - 1),
            tx_count=stage_bytes,
            barrier_storage=barriers.data_ptr(),
            cta_layout_vmnk=cluster,
        )

    def sums_ready(self, barriers, cluster, count):
        """The pipeline of `count` tiles' sums, from the MMA to the epilogue."""
        return pipeline.PipelineUmmaAsync.create(
            num_stages=count,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, EPILOGUE_WARPS * self.sms),
            barrier_storage=barriers.data_ptr(),
            cta_layout_vmnk=cluster,
        )

    def allocated(self, memory, sums):
        """The sums in tensor memory, once it is allocated."""
        cute.arch.barrier(barrier_id=ALLOCATED, number_of_threads=EPILOGUE_THREADS + 32)
        after_barrier()
        address = cute.arch.retrieve_tmem_ptr(self.sums, 16, memory.columns.ptr)
        return cute.make_tensor(address, sums.layout)

    @cute.jit
    def load(self, atom, source, target, barrier, mask, sharers: cutlass.Constexpr):
        """A TMA load, which `sharers` thread blocks share."""
        if cutlass.const_expr(sharers > 1):
            cute.copy(atom, source, target, tma_bar_ptr=barrier, mcast_mask=mask)
        else:
            cute.copy(atom, source, target, tma_bar_ptr=barrier)
