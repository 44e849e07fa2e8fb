"""The program of `blockscaled_gemm` kernels with the mainloop tcgen05, in CuTe-DSL
(templates/blockscaled_gemm/tcgen05.py.j2).

    warps 0 to 3   the epilogue: sums from tensor memory to D
    warp 4         the MMA: it copies a stage's scale factors to tensor memory, then multiplies the stage
    warp 5         loads A, B and their scale factors by TMA

gemm/tcgen05_tiles.py has the tiles, gemm/tcgen05_results.py the epilogue. Scale factors lie in the 128x4
layout: those of 128 rows and 4 blocks of k are an atom of 512 bytes, and the atoms of 128 rows follow each
other along k. So TMA moves whole atoms, and each thread block loads all that its MMAs read.

Tensor memory has 512 columns. Two tiles' sums of 128 columns leave room for the scale factors. Of 256
columns they overlap by as many columns as these take: the epilogue stores the shared columns of a tile first,
and gives them to the next tile's MMAs before it stores the others.
"""

from dataclasses import dataclass
from typing import NamedTuple

import cutlass
from cutlass import Float32, Int32, Int64, cute, pipeline, utils
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.cute.runtime import make_fake_stream, make_ptr
from cutlass.utils import blockscaled_layout
from tilewright_programs.gemm.tcgen05_results import ADDENDS, VECTOR, Added, Results, Target
from tilewright_programs.gemm.tcgen05_tiles import (
    EPILOGUE_WARPS,
    LOAD_WARP,
    MMA_WARP,
    SUMS,
    THREADS,
    TYPES,
    Work,
    after_barrier,
    before_barrier,
)
from tilewright_programs.quantize.nvfp4_numbers import asm

SCALES = {16: cutlass.Float8E4M3FN, 32: cutlass.Float8E8M0FNU}  # types, by the elements that share one
ATOM_ROWS, ATOM_COLUMNS, ATOM_BYTES = 128, 4, 512
WORD = Int64  # in which TMA moves atoms
ATOM_WORDS = ATOM_BYTES * 8 // WORD.width
TENSOR_MEMORY = 512  # columns
# Of an atom in shared memory, for tcgen05.cp: groups of 8 rows are 128 bytes apart, version 1, not swizzled.
DESCRIPTOR = 128 >> 4 << 32 | 1 << 46


class Elements(NamedTuple):
    """D, whose elements threads store."""

    first: cute.Pointer
    leading: Int64
    batch_stride: Int64
    m: Int32
    n: Int32


def atoms_down(rows):
    """Atoms of scale factors that `rows` rows of a tile have, or share with the next tiles."""
    return -(-rows // ATOM_ROWS)


@dataclass(frozen=True)
class BlockscaledGemm(Results):
    """What a kernel is compiled for."""

    block: int  # elements along k that share a scale factor
    prefetch: bool  # whether loads are announced to L2 as many stages ahead as the ring has

    # Parameters of the kernel's function, as PTX declares them: blockscaled_gemm/cute_dsl_host.hpp passes
    # these.
    PARAMETERS = (*("b8[128]", "b8[12]") * 5, *("u64",) * 3, "f32", "u64", *("u32",) * 6, *("u64",) * 3,
                  *("u32",) * 2)  # fmt: skip

    @property
    def by_tma(self):
        """Whether TMA stores D: if not, threads do."""
        return self.buffers > 0

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

    def scale_loads(self, scales_a, scales_b):
        """The TMA loads of the scale factors."""
        op = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.TWO if self.sms == 2 else tcgen05.CtaGroup.ONE)
        pairs = []
        for tensor, rows in ((scales_a, self.tile[0]), (scales_b, self.tile[1])):
            box = cute.slice_(self.boxes(rows), (None, None, 0))
            pairs += cpasync.make_tiled_tma_atom(op, tensor, box, box.shape)
        return tuple(pairs)

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
            row, column, matrix = self.tile_of(block, work.blocks_m, work.blocks_n, work.swizzle, work.down)
            matrix_a = cutlass.min(matrix, cute.size(a, mode=[2]) - 1)  # one may serve all
            matrix_b = cutlass.min(matrix, cute.size(b, mode=[2]) - 1)
            tile_a, tile_b = (
                from_a[None, row // self.sms, None, matrix_a],
                from_b[None, column, None, matrix_b],
            )
            scales_of_a = scales_a[1][None, row, None, matrix_a]
            scales_of_b = scales_b[1][None, column // self.sharers, None, matrix_b]
            sources = (tma_a, tile_a), (tma_b, tile_b), (scales_a[0], scales_of_a), (scales_b[0], scales_of_b)
            for k_tile in cutlass.range(work.k_tiles, unroll=1):
                if cutlass.const_expr(self.prefetch):
                    ahead = k_tile + self.stages
                    if ahead < work.k_tiles:
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
            block = self.next_block(block)
        ring.producer_tail(write)

    @cute.jit
    def copy_scales(self, stages, stage, scales, rows: cutlass.Constexpr):
        """Copies a stage's scale factors of `rows` rows to tensor memory, an atom at a time. The MMAs of 4
        blocks of k read neighbouring atoms, one for each 128 rows."""
        atoms = atoms_down(rows)
        group = "tcgen05.cp.cta_group::2" if self.sms == 2 else "tcgen05.cp.cta_group::1"
        first = stages.toint() + stage * self.scale_bytes(rows)
        for i in cutlass.range_constexpr(atoms * self.atoms):
            down, along = i // self.atoms, i % self.atoms
            descriptor = Int64(DESCRIPTOR) | Int64((first + i * ATOM_BYTES) >> 4)
            column = scales.toint() + 4 * (along * atoms + down)
            asm(None, f"{group}.32x128b.warpx4 [$0], $1;", column, descriptor, effects=True)

    @cute.jit
    def first_scale(self, block, work: Work):
        """Where in the atoms of B's scale factors those of this thread block's tile begin, as bytes of a lane
        of tensor memory: 32 columns' words are neighbours."""
        first = Int32(0)
        if cutlass.const_expr(self.sharers > 1):
            _, column, _ = self.tile_of(block, work.blocks_m, work.blocks_n, work.swizzle, work.down)
            first = column % self.sharers * (self.tile[1] // 32 * 4)
        return first

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
            block = self.next_block(block)
        sums_ready.producer_tail(fill)

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
            place = self.tile_of(block, work.blocks_m, work.blocks_n, work.swizzle, work.down)
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
                self.finish(
                    values, factor, size_of_c, warp, thread, memory, place, rows, part, step, added, to
                )
            read.advance()
            turn = 1 - turn
            block = self.next_block(block)
        self.drain(warp)

    @cute.jit
    def store_by_tma(self, tma_d, d, memory, warp, thread, row, column, matrix, step, values):
        """Stores a subtile by TMA; if `d` is `Elements`, each thread stores its row."""
        if cutlass.const_expr(self.by_tma):
            Results.store_by_tma(self, tma_d, d, memory, warp, thread, row, column, matrix, step, values)
        else:
            self.store_row(d, row * self.tile[0] + thread, column * self.subtile, matrix, values)

    @cute.jit
    def store_row(self, d: Elements, row, first, matrix, values):
        """Stores a row of a subtile, whose columns begin at `first`. D's rows are multiples of 16 bytes."""
        kind = TYPES[self.d]
        count = 8 * VECTOR // kind.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), kind, num_bits_per_copy=8 * VECTOR)
        if row < d.m:
            for start in cutlass.range_constexpr(0, self.subtile, count):
                if first + start < d.n:
                    rounded = cute.make_rmem_tensor((count,), kind)
                    for i in cutlass.range_constexpr(count):
                        rounded[i] = values[start + i].to(kind)
                    index = d.batch_stride * matrix + d.leading * row + first + start
                    address = d.first.toint() + kind.width // 8 * index
                    pointer = cute.make_ptr(kind, address, cute.AddressSpace.gmem, assumed_align=VECTOR)
                    cute.copy(atom, rounded, cute.make_tensor(pointer, cute.make_layout(count)))

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
    ):
        thread, _, _ = cute.arch.thread_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        high, wide = self.cluster
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
        scale_loads = (
            self.scale_parts(tma_scales_a, scales_a, memory.scales_a, tile_m),
            self.scale_parts(tma_scales_b, scales_b, memory.scales_b, tile_n),
        )
        operands = tiled_mma.make_fragment_A(stages_a), tiled_mma.make_fragment_B(stages_b)
        shape = tiled_mma.partition_shape_C(self.tiler[:2])
        one = tiled_mma.make_fragment_C(shape)
        all_sums = cute.make_tensor(
            one.iterator, cute.append(one.layout, cute.make_layout(SUMS, stride=self.pitch))
        )

        # No tensor memory before the kernel ahead is done, which may hold some.
        cute.arch.griddepcontrol_wait()
        pair = self.sms == 2
        if warp == 0:
            cute.arch.alloc_tmem(self.columns, memory.columns.ptr, is_two_cta=pair)
            cute.arch.relinquish_tmem_alloc_permit(is_two_cta=pair)
            before_barrier()

        work = Work(k_tiles, blocks_m, blocks_n, blocks, swizzle, down)
        if warp == LOAD_WARP:
            loads = (tma_a, from_a, to_a), (tma_b, from_b, to_b), *scale_loads
            self.load_tiles(loads, (a, b), ring, cluster, place, work)

        if warp == MMA_WARP:
            products = self.allocated(memory, all_sums)
            if place[0] == 0:
                scales = self.scales_in_tensor_memory(tiled_mma, products.iterator)
                self.multiply(tiled_mma, operands, memory, products, scales, ring, sums_ready, work)

        if warp < EPILOGUE_WARPS:
            products = self.allocated(memory, all_sums)
            none = cute.make_ptr(Float32, 0, cute.AddressSpace.gmem)
            kind = Int32(ADDENDS.index(TYPES[self.d]))
            added = Added(
                c, ld_c, batch_stride_c, Float32(1.0), beta, alpha, none, none, kind, Int32(0), Int32(0)
            )
            target = Target(tma_d, d, d_elements, ld_d, batch_stride_d, m, n)
            if cutlass.const_expr(not self.by_tma):
                target = target._replace(d=Elements(d_elements, ld_d, batch_stride_d, m, n))
            self.store_tiles(warp, thread, memory, products, sums_ready, work, added, target)

        # A neighbour's MMAs and barriers may use this thread block's memory until here.
        if cutlass.const_expr(high * wide > 1):
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
        else:
            cute.arch.sync_threads()
        if warp == 0:
            address = cute.arch.retrieve_tmem_ptr(self.sums, 16, memory.columns.ptr)
            cute.arch.dealloc_tmem(address, self.columns, is_two_cta=pair)

    def stages_of(self, memory, layout, kind):
        """The stages of an operand in shared memory."""
        pointer = cute.recast_ptr(memory.data_ptr(), layout.inner, dtype=kind)
        return cute.make_tensor(pointer, layout.outer)

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
            any_type, stride, stride, extent, extent,
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
