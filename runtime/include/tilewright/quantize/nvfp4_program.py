"""The program of `quantize` kernels to NVFP4 in CuTe-DSL (templates/quantize/cute_dsl.py.j2).

    vector   a warp takes four rows of 512 elements, straight from global memory
    tma      warp 8 loads boxes of 256 rows (of E4M3, 128) by 128 bytes, which TMA swizzles, into a ring of
             stages; warps 0 to 7 take 32 rows each (of E4M3, 16)

The host computes the tasks of thread blocks as for the kernels in C++ (quantize/geometry.hpp).
"""

import cutlass
from cutlass import Float32, Int32, Int64, Uint32, cute
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.cute.runtime import make_fake_stream, make_ptr
from tilewright_programs.quantize.nvfp4_numbers import magnitude
from tilewright_programs.quantize.nvfp4_rows import (
    BLOCK,
    LINE,
    ROWS,
    SCALES_128X4,
    TYPES,
    Params,
    Rows,
    load_word,
    prefetch,
)
from tilewright_programs.quantize.nvfp4_thresholds import CODES, store_row, table_factor

READY = 1  # the named barrier of the threads that quantise


class Quantize(Rows):
    """What a kernel is compiled for."""

    @property
    def PARAMETERS(self):  # noqa: N802 (the name that programs have)
        """The types of the parameters of the kernel's function, as PTX declares them."""
        kinds = {Int64: "u64", Int32: "u32"}
        tensor = ("b8[128]", "b8[12]") if self.by_tma else ()  # a tensor map, and three extents
        return (*(kinds[kind] for kind in Params.__annotations__.values()), *tensor)

    def storage(self):
        """Shared memory."""
        rows, columns = self.box

        @cute.struct
        class Vector:
            table: cute.struct.MemRange[Float32, self.table_words]

        @cute.struct
        class Tma:
            table: cute.struct.MemRange[Float32, self.table_words]
            full: cute.struct.MemRange[Int64, self.stages]
            empty: cute.struct.MemRange[Int64, self.stages]
            x: cute.struct.Align[cute.struct.MemRange[TYPES[self.x], rows * columns * self.stages], 1024]

        storage = Tma if self.by_tma else Vector
        assert storage.size_in_bytes() == self.shared_bytes, (
            f"tilewright computed {self.shared_bytes} bytes of shared memory, "
            f"CuTe-DSL {storage.size_in_bytes()}"
        )
        return storage

    def ring(self):
        """The layout of the boxes in shared memory."""
        atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, TYPES[self.x])
        return cute.tile_to_shape(atom, (*self.box, self.stages), order=(0, 1, 2))

    @cute.jit
    def first_task(self, p):
        """The row and the column of a thread block's first task."""
        block = cute.arch.block_idx()[0]
        return block // p.column_tasks, block % p.column_tasks

    @cute.jit
    def next_task(self, p, row, column):
        row, column = row + p.row_step, column + p.column_step
        if column >= p.column_tasks:
            row, column = row + 1, column - p.column_tasks
        return row, column

    @cute.jit
    def limit(self, p, group):
        """The rows of a group that count."""
        limit = p.m
        if p.rows_valid != 0:
            limit = cutlass.max(0, cutlass.min(limit, load_word(Int32, p.rows_valid + 4 * Int64(group))))
        return limit

    @cute.jit
    def load_boxes(self, p, memory, tma_x, x):
        """The warp that loads."""
        ring = self.ring()
        stages = memory.x.get_tensor(ring.outer, swizzle=ring.inner)
        boxes = cute.group_modes(cute.local_tile(x, self.box, (None, None, None)), 0, 2)
        to_x, from_x = cpasync.tma_partition(
            tma_x, 0, cute.make_layout(1), cute.group_modes(stages, 0, 2), boxes
        )
        rows, columns = self.box
        stage, phase = Int32(0), Int32(1)
        row, column = self.first_task(p)
        while row < p.total_row_tasks:
            group = row // p.row_tasks
            box_row = row - group * p.row_tasks
            matrix = cutlass.min(group, cute.size(x, mode=[2]) - 1)  # one may serve all groups
            counts = box_row * rows < self.limit(p, group)
            for chunk in cutlass.range(p.chunks, unroll=1):
                box_column = column * p.chunks + chunk
                full = memory.full.data_ptr() + stage
                cute.arch.mbarrier_wait(memory.empty.data_ptr() + stage, phase)
                if counts and box_column * columns < p.k:
                    with cute.arch.elect_one():
                        cute.arch.mbarrier_arrive_and_expect_tx(full, rows * LINE)
                    source = from_x[None, box_row, box_column, matrix]
                    cute.copy(tma_x, source, to_x[None, stage], tma_bar_ptr=full)
                else:
                    with cute.arch.elect_one():
                        cute.arch.mbarrier_arrive(full)
                stage += 1
                if stage == self.stages:
                    stage, phase = Int32(0), phase ^ 1
            row, column = self.next_task(p, row, column)

    def store_factors(self, memory, code, scale):
        """Stores the factor of a code, and of its negative: that has a negative global scale, so the quotient
        is the same."""
        factor, factors = table_factor(Uint32(code), magnitude(scale)), self.factors(memory)
        factors[code], factors[code + CODES] = factor, factor

    @cute.jit
    def prepare(self, p, memory, thread):
        """Computes the table of all codes, where all rows have one global scale, which it returns."""
        scale = Float32(1.0)
        if p.global_scale != 0:
            scale = load_word(Float32, p.global_scale)
        if thread < CODES:
            if cutlass.const_expr(self.by_thresholds):
                store_row(memory.table.data_ptr().toint(), thread, scale)
            else:
                self.store_factors(memory, thread, scale)
        cute.arch.barrier(barrier_id=READY, number_of_threads=self.threads)
        return scale

    @cute.jit
    def rows_of_warp(self, p, row_task, warp):
        """The first of a warp's rows in a task, and the step to the next. Their scales are neighbours: in the
        layout 128x4 such rows are 32 apart."""
        in_warp = 32 // self.lanes  # rows of a warp, of the four of each thread
        quad = row_task * (self.threads // self.lanes) + warp * in_warp
        first, step = quad * ROWS, Int32(in_warp)
        if p.layout == SCALES_128X4:
            first, step = (quad & ~31) * ROWS + (quad & 31), Int32(32)
        return first, step

    @cute.jit
    def prefetch_rows(self, p, warp, lane):
        """Asks L2 for a thread's first elements, which arrive while the table is computed."""
        row, column = self.first_task(p)
        group = row // p.row_tasks
        first, step = self.rows_of_warp(p, row - group * p.row_tasks, warp)
        limit, first_column = self.limit(p, group), column * p.chunks * self.box[1] + lane * BLOCK
        for i in cutlass.range_constexpr(ROWS):
            if first + i * step < limit and first_column < p.k:
                prefetch(self.address(p, group, first + i * step, first_column))

    @cute.jit
    def run(self, p, memory, per_row: cutlass.Constexpr):
        """The threads that quantise."""
        thread, warp, lane = cute.arch.thread_idx()[0], cute.arch.warp_idx(), cute.arch.lane_idx()
        scale = Float32(1.0)
        if cutlass.const_expr(not per_row):
            if cutlass.const_expr(not self.by_tma):
                self.prefetch_rows(p, warp, lane)
            scale = self.prepare(p, memory, thread)
        stage, phase = Int32(0), Int32(0)
        row, column = self.first_task(p)
        while row < p.total_row_tasks:
            group = row // p.row_tasks
            limit = self.limit(p, group)
            first_of_warp, step = self.rows_of_warp(p, row - group * p.row_tasks, warp)
            first, part = first_of_warp + lane // self.lanes, lane % self.lanes
            in_box = first - (row - group * p.row_tasks) * self.box[0]
            for chunk in cutlass.range(p.chunks, unroll=1):
                first_column = (column * p.chunks + chunk) * self.box[1] + part * BLOCK
                if cutlass.const_expr(self.by_tma):
                    cute.arch.mbarrier_wait(memory.full.data_ptr() + stage, phase)
                    box = memory.x.data_ptr().toint() + stage * (self.box[0] * LINE)
                    source = box, in_box, part
                else:
                    source = self.load_rows(p, group, first, step, first_column, limit)
                if first_of_warp < p.padded_rows:
                    place = Int64(group), first, step, first_column, limit
                    self.quantize_rows(p, memory, source, place, scale, per_row)
                if cutlass.const_expr(self.by_tma):
                    cute.arch.mbarrier_arrive(memory.empty.data_ptr() + stage)
                    stage += 1
                    if stage == self.stages:
                        stage, phase = Int32(0), phase ^ 1
            row, column = self.next_task(p, row, column)

    @cute.jit
    def work(self, p, memory):
        """Each kind of global scale has its own code, so that no block of a row branches."""
        if p.scale_per_row != 0:
            self.run(p, memory, True)
        else:
            self.run(p, memory, False)

    def begin(self):
        """Shared memory, after what the thread block sets up beside the end of the previous kernel."""
        memory = cutlass.utils.SmemAllocator().allocate(self.storage())
        if cutlass.const_expr(self.by_tma):
            self.set_barriers(memory)
        if cutlass.const_expr(self.pdl):
            cute.arch.griddepcontrol_wait()
            cute.arch.griddepcontrol_launch_dependents()
        return memory

    @cute.jit
    def set_barriers(self, memory):
        if cute.arch.thread_idx()[0] == 0:
            for stage in cutlass.range_constexpr(self.stages):
                cute.arch.mbarrier_init(memory.full.data_ptr() + stage, 1)
                cute.arch.mbarrier_init(memory.empty.data_ptr() + stage, self.threads)
        cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()

    @cute.kernel
    def vector_kernel(self, p: Params):
        self.work(p, self.begin())

    @cute.kernel
    def tma_kernel(self, p: Params, tma_x: cute.CopyAtom, x: cute.Tensor):
        memory = self.begin()
        if cute.arch.make_warp_uniform(cute.arch.warp_idx()) == self.threads // 32:
            self.load_boxes(p, memory, tma_x, x)
        else:
            self.work(p, memory)

    @cute.jit
    def program(self, x: cute.Pointer, extent: Int32, stride: Int64, stream):
        """Declares the kernel. Its values are never used: quantize/cute_dsl_host.hpp launches the kernel."""
        p = Params(*(stride if kind is Int64 else extent for kind in Params.__annotations__.values()))
        if cutlass.const_expr(self.by_tma):
            aligned = cute.assume(stride, divby=16)  # to 16 bytes at least, for TMA
            tensor = cute.make_tensor(
                x, cute.make_layout((extent, extent, extent), stride=(aligned, 1, aligned))
            )
            box = cute.slice_(self.ring(), (None, None, 0))
            op = cpasync.CopyBulkTensorTileG2SOp()
            kernel = self.tma_kernel(p, *cpasync.make_tiled_tma_atom(op, tensor, box, self.box))
        else:
            kernel = self.vector_kernel(p)
        kernel.launch(
            grid=(extent, 1, 1),
            block=(self.threads + 32 * self.by_tma, 1, 1),
            smem=self.shared_bytes,
            min_blocks_per_mp=self.blocks,
            preferred_smem_carveout=100,  # else CuTe-DSL asks a GPU
            stream=stream,
        )

    def arguments(self):
        """Values of `program`'s parameters, of which their types count."""
        x = make_ptr(TYPES[self.x], 16, cute.AddressSpace.gmem, assumed_align=16)
        return x, Int32(1), Int64(16), make_fake_stream()


Program = Quantize
