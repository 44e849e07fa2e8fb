"""Matrix products by tcgen05 whose k the thread blocks of a cluster share: the epilogue adds their sums.

Each thread block multiplies a range of k of the same tile, and writes its sums to its own shared memory,
where its stages were. Behind a barrier of the cluster it adds some columns of all ranges, in the order of k,
and stores them; behind a second one the stages are loaded again. So the bits of D do not depend on which
thread block is first, and a launch needs no workspace.
"""

import cutlass
from cutlass import Int32, cute, pipeline
from tilewright_programs.gemm.tcgen05_results import Added, Results, Target
from tilewright_programs.gemm.tcgen05_tiles import Work, after_barrier, before_barrier
from tilewright_programs.quantize.nvfp4_numbers import asm

COUNTS = (2, 4, 8)  # ranges of k: gemm/cute_dsl_host.hpp refuses other numbers
LOADS = 32  # that a thread has in flight


class Ranges(Results):
    """The epilogue of a kernel, which may share a tile's k with other thread blocks."""

    @cute.jit
    def epilogue(self, warp, thread, memory, products, sums_ready, work: Work, added: Added, to: Target):
        """The epilogue's warps: each tile from tensor memory to D."""
        if cutlass.const_expr(self.splits):
            if cute.arch.cluster_size() > 1:
                self.store_ranges(thread, memory, products, sums_ready, work, added, to)
            else:
                self.store_tiles(warp, thread, memory, products, sums_ready, work, added, to)
        else:
            self.store_tiles(warp, thread, memory, products, sums_ready, work, added, to)

    @cute.jit
    def meet_epilogue(self):
        """The barriers of a tile in `store_ranges`, for the warps that are not the epilogue's."""
        if cutlass.const_expr(self.splits):
            if cute.arch.cluster_size() > 1:
                for _ in cutlass.range_constexpr(2):
                    cute.arch.cluster_arrive()
                    cute.arch.cluster_wait()

    @cute.jit
    def store_ranges(self, thread, memory, products, sums_ready, work: Work, added: Added, to: Target):
        """This thread block's columns of each tile, from all ranges' sums to D."""
        tile_m, tile_n, _ = self.tile
        copying, source, values = self.subtiles(thread, products)
        first = cute.recast_ptr(memory.a.data_ptr(), dtype=self.sums)
        own = cute.make_tensor(first, cute.make_layout((tile_m, tile_n), stride=(1, tile_m)))
        size = cute.arch.cluster_size()
        read = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, self.pending)
        turn, block = Int32(0), self.first_block()
        while block < work.blocks:
            place = self.tile_of(block, work)
            sums_ready.consumer_wait(read)
            after_barrier()
            for part in cutlass.range_constexpr(tile_n // self.subtile):
                cute.copy(copying, source[None, None, None, 0, part, turn], values)
                cute.arch.fence_view_async_tmem_load()
                for i in cutlass.range_constexpr(self.subtile):
                    own[thread, part * self.subtile + i] = values[i]
            before_barrier()
            with cute.arch.elect_one():
                sums_ready.consumer_release(read)
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
            for count in cutlass.range_constexpr(len(COUNTS)):
                if size == COUNTS[count]:
                    self.store_columns(COUNTS[count], first.toint(), thread, place, added, to)
            cute.arch.fence_proxy("async.shared", space="cta")  # before TMA's next loads
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
            read.advance()
            turn = 1 - turn
            block = self.next_block(block)

    @cute.jit
    def store_columns(self, count: cutlass.Constexpr, first, thread, place, added: Added, to: Target):
        """Adds and stores this thread block's columns, of `count` ranges whose sums begin at `first`."""
        tile_m, tile_n, _ = self.tile
        columns = tile_n // count
        width = min(columns, LOADS // count)
        rows = self.rows(place, thread, to)
        factor, size_of_c = self.factor(added), self.size_of_c(added)
        begin = columns * cute.arch.block_idx_in_cluster()
        addresses = []
        for rank in cutlass.range_constexpr(count):
            mine = Int32(first) + 4 * (begin * tile_m + thread)
            addresses.append(asm(Int32, "mapa.shared::cluster.u32 $0, $1, $2;", mine, Int32(rank)))
        for start in cutlass.range_constexpr(0, columns, width):
            loaded = []
            for rank in cutlass.range_constexpr(count):
                for i in cutlass.range_constexpr(width):
                    offset = 4 * (start + i) * tile_m
                    load = f"ld.shared::cluster.b32 $0, [$1+{offset}];"
                    loaded.append(asm(self.sums, load, addresses[rank], effects=True))
            values = cute.make_rmem_tensor((width,), self.sums)
            for i in cutlass.range_constexpr(width):
                total = loaded[i]
                for rank in cutlass.range_constexpr(1, count):
                    total = total + loaded[rank * width + i]
                values[i] = total
            self.finish(values, factor, size_of_c, place, rows, begin + start, added, to)
            _, column, matrix = place
            first_column = column * tile_n + begin + start
            self.store(
                to.d_elements, to.batch_stride_d * matrix, to.ld_d, rows[0], first_column, to.m, to.n, values
            )
