"""The program of `blockscaled_gemm` kernels with the mainloop tcgen05, in CuTe-DSL
(templates/blockscaled_gemm/tcgen05.py.j2).

    warps 0 to 3   the epilogue: sums from tensor memory to D
    warp 4         the MMA: it copies a stage's scale factors to tensor memory, then multiplies the stage
    warp 5         loads A, B and their scale factors by TMA

tcgen05_scales.py has the scale factors, tcgen05_stores.py the epilogue, gemm/tcgen05_tiles.py the tiles.
"""

import cutlass
from cutlass import BFloat16, Float32, Int32, Int64, cute, pipeline, utils
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.cute.runtime import make_fake_stream, make_ptr
from tilewright_programs.blockscaled_gemm.tcgen05_scales import WORD
from tilewright_programs.blockscaled_gemm.tcgen05_stores import Elements, Stores
from tilewright_programs.gemm.tcgen05_results import ADDENDS, Added, Target
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


class BlockscaledGemm(Stores):
    """What a kernel is compiled for."""

    # Parameters of the kernel's function, as PTX declares them: blockscaled_gemm/cute_dsl_host.hpp passes
    # these.
    PARAMETERS = (*("b8[128]", "b8[12]") * 5, *("u64",) * 3, "f32", "u64", *("u32",) * 6, *("u64",) * 3,
                  *("u32",) * 2, "u64", "u32")  # fmt: skip

    @property
    def type_of_addends(self):
        """The type of C and the bias as a number: D's, or BF16 beside a D of FP8."""
        kind = TYPES[self.d]
        return ADDENDS.index(kind if kind.width > 8 else BFloat16)

    def tiled_mma(self):
        """The MMA of a tile."""
        return utils.sm100.make_blockscaled_trivial_tiled_mma(
            TYPES[self.a],
            TYPES[self.b],
            OperandMajorMode.K,
            OperandMajorMode.K,
            self.scale,
            self.block,
            tcgen05.CtaGroup.TWO if self.sms == 2 else tcgen05.CtaGroup.ONE,
            self.tiler[:2],
        )

    def storage(self):
        """Shared memory."""
        m, n, k = self.tile

        def bytes_of(count, align):
            return cute.struct.Align[cute.struct.MemRange[cutlass.Uint8, count], align]

        def operand(kind, rows):
            return bytes_of(rows * k * TYPES[kind].width // 8 * self.stages, 1024)

        @cute.struct
        class Storage:
            ring: cute.struct.MemRange[Int64, 2 * self.stages]
            full_and_empty: cute.struct.MemRange[Int64, 2 * SUMS]
            columns: Int32  # the address of the columns of tensor memory
            d: cute.struct.Align[
                cute.struct.MemRange[TYPES[self.d], max(1, m * self.subtile * self.buffers)], 1024
            ]
            a: operand(self.a, m)
            b: operand(self.b, n // self.sms)
            scales_a: bytes_of(self.scale_bytes(m) * self.stages, 1024)
            scales_b: bytes_of(self.scale_bytes(n) * self.stages, 1024)

        assert Storage.size_in_bytes() == self.shared_bytes, (
            f"tilewright computed {self.shared_bytes} bytes of shared memory, "
            f"CuTe-DSL {Storage.size_in_bytes()}"
        )
        return Storage

    @cute.jit
    def load_tiles(self, loads, tensors, ring, cluster, place, work: Work):
        """The warp that loads: all k tiles of each tile into the ring of stages."""
        (tma_a, from_a, to_a), (tma_b, from_b, to_b), scales_a, scales_b = loads
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
            tile_a, tile_b = (
                from_a[None, row // self.sms, None, matrix_a],
                from_b[None, column, None, matrix_b],
            )
            scales_of_a = scales_a[1][None, row, None, matrix_a]
            scales_of_b = scales_b[1][None, column // self.sharers, None, matrix_b]
            sources = (tma_a, tile_a), (tma_b, tile_b), (scales_a[0], scales_of_a), (scales_b[0], scales_of_b)
            end = work.first_k + work.k_tiles
            for k_tile in cutlass.range(work.first_k, end, unroll=1):
                if cutlass.const_expr(self.prefetch):
                    ahead = k_tile + self.stages
                    if ahead < end:
                        with cute.arch.elect_one():  # of which a copy takes care by itself
                            for tma, source in sources:
                                cute.prefetch(tma, source[None, ahead])
                ring.producer_acquire(write)
                full, stage = ring.producer_get_barrier(write), (None, write.index)
                self.load(tma_a, tile_a[None, k_tile], to_a[stage], full, mask_a, wide)
                self.load(tma_b, tile_b[None, k_tile], to_b[stage], full, mask_b, high // self.sms)
                cute.copy(scales_a[0], scales_of_a[None, k_tile], scales_a[2][stage], tma_bar_ptr=full)
                cute.copy(scales_b[0], scales_of_b[None, k_tile], scales_b[2][stage], tma_bar_ptr=full)
                write.advance()
            self.meet_epilogue()
            block = self.next_block(block)
        ring.producer_tail(write)

    @cute.jit
    def multiply(self, tiled_mma, operands, memory, products, scales, ring, sums_ready, work: Work):
        """The warp of the MMA: the sums of each tile."""
        operand_a, operand_b = operands
        scales_a, scales_b = scales
        stored_a, stored_b = memory.scales_a.data_ptr(), memory.scales_b.data_ptr()
        read = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, self.stages)
        fill = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, self.pending)
        turn, block = Int32(0), self.first_block()
        while block < work.blocks:
            sums_ready.producer_acquire(fill)
            after_barrier()
            sums = products[None, None, None, turn]
            own_b = cute.make_tensor(scales_b.iterator + self.first_scale(block, work), scales_b.layout)
            tiled_mma.set(tcgen05.Field.ACCUMULATE, False)
            for _ in cutlass.range(work.k_tiles, unroll=1):
                ring.consumer_wait(read)
                with cute.arch.elect_one():
                    self.copy_scales(stored_a, read.index, scales_a.iterator, self.tile[0])
                    self.copy_scales(stored_b, read.index, scales_b.iterator, self.tile[1])
                for step in cutlass.range_constexpr(cute.size(operand_a, mode=[2])):
                    at, scale_at = (None, None, step, read.index), (None, None, step)
                    cute.gemm(
                        tiled_mma,
                        sums,
                        [operand_a[at], scales_a[scale_at]],
                        [operand_b[at], own_b[scale_at]],
                        sums,
                    )
                    tiled_mma.set(tcgen05.Field.ACCUMULATE, True)
                ring.consumer_release(read)
                read.advance()
            sums_ready.producer_commit(fill)
            fill.advance()
            turn = 1 - turn
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
        tma_scales_a: cute.CopyAtom,
        scales_a: cute.Tensor,
        tma_scales_b: cute.CopyAtom,
        scales_b: cute.Tensor,
        tma_d: cute.CopyAtom,
        d: cute.Tensor,
        c: cute.Pointer,
        ld_c: Int64,
        batch_stride_c: Int64,
        beta: Float32,
        alpha: cute.Pointer,
        k_tiles: Int32,
        blocks_m: Int32,
        blocks_n: Int32,
        blocks: Int32,
        swizzle: Int32,
        down: Int32,
        d_elements: cute.Pointer,
        ld_d: Int64,
        batch_stride_d: Int64,
        m: Int32,
        n: Int32,
        bias: cute.Pointer,
        activation: Int32,
    ):
        thread, _, _ = cute.arch.thread_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        tiled_mma = self.tiled_mma()
        cluster = self.blocks_of(tiled_mma)
        rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
        place = cluster.get_flat_coord(rank)  # (in an MMA, down, across, 0)

        if warp == LOAD_WARP:
            for atom in (tma_a, tma_b, tma_scales_a, tma_scales_b):
                cpasync.prefetch_descriptor(atom)
            if cutlass.const_expr(self.by_tma):
                cpasync.prefetch_descriptor(tma_d)

        memory = cutlass.utils.SmemAllocator().allocate(self.storage())
        tile_m, tile_n, tile_k = self.tile
        layout_a, layout_b = self.operands(tiled_mma)
        stages_a = self.stages_of(memory.a, layout_a, TYPES[self.a])
        stages_b = self.stages_of(memory.b, layout_b, TYPES[self.b])
        bits = tile_m * self.sms * tile_k * TYPES[self.a].width + tile_n * tile_k * TYPES[self.b].width
        stage_bytes = bits // 8 + self.sms * (self.scale_bytes(tile_m) + self.scale_bytes(tile_n))
        ring = self.ring(memory.ring, cluster, stage_bytes)
        sums_ready = self.sums_ready(memory.full_and_empty, cluster, self.pending)

        loads = (
            *self.parts(tiled_mma, place, tma_a, a, tma_b, b, stages_a, stages_b),
            self.scale_parts(tma_scales_a, scales_a, memory.scales_a, tile_m),
            self.scale_parts(tma_scales_b, scales_b, memory.scales_b, tile_n),
        )
        operands = tiled_mma.make_fragment_A(stages_a), tiled_mma.make_fragment_B(stages_b)
        shape = tiled_mma.partition_shape_C(self.tiler[:2])
        one = tiled_mma.make_fragment_C(shape)
        all_sums = cute.make_tensor(
            one.iterator, cute.append(one.layout, cute.make_layout(SUMS, stride=self.pitch))
        )

        self.allocate(warp, memory)
        work = self.work(k_tiles, blocks_m, blocks_n, blocks, swizzle, down)
        if warp == LOAD_WARP:
            self.load_tiles(loads, (a, b), ring, cluster, place, work)

        if warp == MMA_WARP:
            products = self.allocated(memory, all_sums)
            if place[0] == 0:
                scales = self.scales_in_tensor_memory(tiled_mma, products.iterator)
                self.multiply(tiled_mma, operands, memory, products, scales, ring, sums_ready, work)

        if warp < EPILOGUE_WARPS:
            products = self.allocated(memory, all_sums)
            none = cute.make_ptr(Float32, 0, cute.AddressSpace.gmem)
            kind = Int32(self.type_of_addends)
            added = Added(
                c, ld_c, batch_stride_c, Float32(1.0), beta, alpha, none, bias, kind, kind, activation
            )
            target = Target(tma_d, d, d_elements, ld_d, batch_stride_d, m, n)
            if cutlass.const_expr(not self.by_tma):
                target = target._replace(d=Elements(d_elements, ld_d, batch_stride_d, m, n))
            self.epilogue(warp, thread, memory, products, sums_ready, work, added, target)

        self.give_back(warp, memory)

    def stages_of(self, memory, layout, kind):
        """The stages of an operand in shared memory."""
        pointer = cute.recast_ptr(memory.data_ptr(), layout.inner, dtype=kind)
        return cute.make_tensor(pointer, layout.outer)

    @cute.jit
    def program(
        self,
        a: cute.Pointer,
        b: cute.Pointer,
        scales: cute.Pointer,
        d: cute.Pointer,
        any_type: cute.Pointer,
        alpha: cute.Pointer,
        extent: Int32,
        stride: Int64,
        factor: Float32,
        stream,
    ):
        """Declares the kernel. Its values are never used: blockscaled_gemm/cute_dsl_host.hpp launches it."""
        aligned = cute.assume(stride, divby=32)  # elements, to 16 bytes at least, for TMA
        layout = cute.make_layout((extent, extent, extent), stride=(aligned, 1, aligned))
        tma_a, tensor_a, tma_b, tensor_b = self.loads(
            self.tiled_mma(), cute.make_tensor(a, layout), cute.make_tensor(b, layout)
        )
        atoms = cute.make_tensor(scales, layout)
        tma_sfa, tensor_sfa, tma_sfb, tensor_sfb = self.scale_loads(atoms, atoms)
        tma_d, tensor_d = tma_a, tensor_a  # if threads store D: unused
        if cutlass.const_expr(self.by_tma):
            tma_d, tensor_d = cpasync.make_tiled_tma_atom(
                cpasync.CopyBulkTensorTileS2GOp(),
                cute.make_tensor(d, layout),
                cute.slice_(self.results(), (None, None, 0)),
                (self.tile[0], self.subtile),
            )
        self.kernel(
            tma_a, tensor_a, tma_b, tensor_b, tma_sfa, tensor_sfa, tma_sfb, tensor_sfb, tma_d, tensor_d,
            any_type, stride, stride, factor, alpha, extent, extent, extent, extent, extent, extent,
            any_type, stride, stride, extent, extent, any_type, extent,
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
            pointer(TYPES[self.a]), pointer(TYPES[self.b]), pointer(WORD), pointer(TYPES[self.d]),
            pointer(cutlass.Int8, 1), pointer(Float32, 4), Int32(1), Int64(32), Float32(1.0),
            make_fake_stream(),
        )  # fmt: skip


Program = BlockscaledGemm
