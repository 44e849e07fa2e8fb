"""The program of `gemm` kernels with the mainloop tcgen05, in CuTe-DSL (templates/gemm/tcgen05.py.j2).

Tensor memory holds the sums of two tiles, so that the next tile is multiplied while a tile is stored.
tcgen05_tiles.py has the tiles and the warps, tcgen05_results.py the epilogue, tcgen05_ranges.py that of a k
which thread blocks share, tcgen05_fp8.py that of a D of FP8.
"""

import cutlass
from cutlass import Float32, Int32, Int64, cute, pipeline
from cutlass.cute.nvgpu import cpasync, tcgen05
from cutlass.cute.runtime import make_fake_stream, make_ptr
from tilewright_programs.gemm.tcgen05_fp8 import Scaled, ScaledResults
from tilewright_programs.gemm.tcgen05_results import Target
from tilewright_programs.gemm.tcgen05_tiles import (
    EPILOGUE_WARPS,
    LOAD_WARP,
    MMA_WARP,
    SUMS,
    THREADS,
    TYPES,
    Work,
    after_barrier,
)


class Gemm(ScaledResults):
    """What a kernel is compiled for."""

    # Parameters of the kernel's function, as PTX declares them: gemm/cute_dsl_host.hpp passes these.
    PARAMETERS = (
        *("b8[128]", "b8[12]") * 3, "u64", "u64", "u64", "f32", "f32", "u64", "u64", *("u32",) * 6,
        "u64", "u64", "u64", "u64", *("u32",) * 5, "u64", "u64",
    )  # fmt: skip

    @cute.jit
    def load_tiles(self, loads, tensors, ring, cluster, place, work: Work):
        """The warp that loads: all k tiles of each tile into the ring of stages."""
        (tma_a, from_a, to_a), (tma_b, from_b, to_b) = loads
        a, b = tensors
        high, wide = self.cluster
        mask_a = cpasync.create_tma_multicast_mask(cluster, place, mcast_mode=2)
        mask_b = cpasync.create_tma_multicast_mask(cluster, place, mcast_mode=1)
        write = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, self.stages)
        block = self.first_block()
        while block < work.blocks:
            row, column, matrix = self.tile_of(block, work)
            matrix_a = cutlass.min(matrix, cute.size(a, mode=[2]) - 1)  # one may serve all
            matrix_b = cutlass.min(matrix, cute.size(b, mode=[2]) - 1)
            for k_tile in cutlass.range(work.first_k, work.first_k + work.k_tiles, unroll=1):
                ring.producer_acquire(write)
                full, stage = ring.producer_get_barrier(write), (None, write.index)
                source_a = from_a[None, row // self.sms, k_tile, matrix_a]
                source_b = from_b[None, column, k_tile, matrix_b]
                self.load(tma_a, source_a, to_a[stage], full, mask_a, wide)
                self.load(tma_b, source_b, to_b[stage], full, mask_b, high // self.sms)
                write.advance()
            self.meet_epilogue()
            block = self.next_block(block)
        ring.producer_tail(write)

    @cute.jit
    def multiply(self, tiled_mma, operands, products, ring, sums_ready, work: Work):
        """The warp of the MMA: the sums of each tile."""
        operand_a, operand_b = operands
        read = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, self.stages)
        fill = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, SUMS)
        block = self.first_block()
        while block < work.blocks:
            sums_ready.producer_acquire(fill)
            after_barrier()
            sums = products[None, None, None, fill.index]
            tiled_mma.set(tcgen05.Field.ACCUMULATE, False)
            for _ in cutlass.range(work.k_tiles, unroll=1):
                ring.consumer_wait(read)
                for step in cutlass.range_constexpr(cute.size(operand_a, mode=[2])):
                    at = (None, None, step, read.index)
                    cute.gemm(tiled_mma, sums, operand_a[at], operand_b[at], sums)
                    tiled_mma.set(tcgen05.Field.ACCUMULATE, True)
                ring.consumer_release(read)
                read.advance()
            sums_ready.producer_commit(fill)
            fill.advance()
            self.meet_epilogue()
            block = self.next_block(block)
        sums_ready.producer_tail(fill)

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
        scale_result: cute.Pointer,
        amax: cute.Pointer,
    ):
        thread, _, _ = cute.arch.thread_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        tiled_mma = self.tiled_mma()
        cluster = self.blocks_of(tiled_mma)
        rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
        place = cluster.get_flat_coord(rank)  # (in an MMA, down, across, 0)

        if warp == LOAD_WARP:
            cpasync.prefetch_descriptor(tma_a)
            cpasync.prefetch_descriptor(tma_b)
            if cutlass.const_expr(not self.swapped):
                cpasync.prefetch_descriptor(tma_d)

        memory = cutlass.utils.SmemAllocator().allocate(self.storage())
        layout_a, layout_b = self.operands(tiled_mma)
        stages_a = memory.a.get_tensor(layout_a.outer, swizzle=layout_a.inner)
        stages_b = memory.b.get_tensor(layout_b.outer, swizzle=layout_b.inner)

        tile_m, tile_n, tile_k = self.tile
        stage_bytes = (tile_m * self.sms + tile_n) * tile_k * TYPES[self.a].width // 8
        ring = self.ring(memory.ring, cluster, stage_bytes)
        sums_ready = self.sums_ready(memory.full_and_empty, cluster, SUMS)

        loads = self.parts(tiled_mma, place, tma_a, a, tma_b, b, stages_a, stages_b)
        operands = tiled_mma.make_fragment_A(stages_a), tiled_mma.make_fragment_B(stages_b)
        shape = tiled_mma.partition_shape_C(self.tiler[:2])
        all_sums = tiled_mma.make_fragment_C(cute.append(shape, SUMS))

        self.allocate(warp, memory)
        work = self.work(k_tiles, blocks_m, blocks_n, blocks, swizzle, down)
        if warp == LOAD_WARP:
            self.load_tiles(loads, (a, b), ring, cluster, place, work)

        if warp == MMA_WARP:
            products = self.allocated(memory, all_sums)
            if place[0] == 0:
                self.multiply(tiled_mma, operands, products, ring, sums_ready, work)

        if warp < EPILOGUE_WARPS:
            products = self.allocated(memory, all_sums)
            added = Scaled(
                c, ld_c, batch_stride_c, alpha, beta, scale_a, scale_b, bias, type_c, type_bias, activation,
                scale_result, amax,
            )  # fmt: skip
            target = Target(tma_d, d, d_elements, ld_d, batch_stride_d, m, n)
            self.epilogue(warp, thread, memory, products, sums_ready, work, added, target)

        self.give_back(warp, memory)

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
            extent, extent, extent, extent, extent, scale, scale,
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
