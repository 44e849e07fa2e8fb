"""The program of `blockscaled_gemm` kernels for sm_103's MMAs of FP4, whose K is 96
(templates/blockscaled_gemm/tcgen05.py.j2).

A tile's K is 768: 8 MMAs, of 3 stages of 256 elements. A row of a stage is a line of 128 bytes, and an MMA
takes 48 bytes of each row. So MMAs 2 and 5 begin in one stage and end in the next: their descriptors have
both stages' addresses.

        stage 0         stage 1         stage 2
    |0    |1    |2 ..   ..   |3    |4    |5 ..  ..  |6    |7    |

Scale factors go to tensor memory three atoms at a time: those of 2 MMAs of NVFP4, or of 4 of MXFP4.
"""

import cutlass
from cutlass import Int32, Int64, cute, pipeline, utils
from cutlass.cute.nvgpu import tcgen05
from tilewright_programs.blockscaled_gemm.tcgen05_program import BlockscaledGemm
from tilewright_programs.blockscaled_gemm.tcgen05_scales import (
    ATOM_BYTES,
    ATOM_COLUMNS,
    DESCRIPTOR,
    atoms_down,
    encoded,
)
from tilewright_programs.gemm.tcgen05_tiles import Work, after_barrier
from tilewright_programs.quantize.nvfp4_numbers import asm, select

STAGES = 3  # of a tile
MMA_K, MMAS = 96, 8
MMA_BYTES, LINE = 48, 128  # of a row: that an MMA takes, and that a stage has
ATOMS = 3  # along k, that tensor memory holds
# The descriptor of an operand in shared memory, without its addresses: groups of 8 rows are 1024 bytes apart,
# version 1, the next stage's address instead of an offset, swizzled lines of 128 bytes.
OPERAND = 1024 >> 4 << 32 | 1 << 46 | 1 << 52 | 2 << 61


class UltraGemm(BlockscaledGemm):
    """What a kernel is compiled for. `tile` has the K of a stage."""

    K_UNIT = STAGES

    @property
    def scale_columns(self):
        """Columns of tensor memory that the scale factors of A and B take."""
        return tuple(atoms_down(rows) * ATOMS * 4 for rows in self.tile[:2])

    @property
    def mmas_at_once(self):
        """MMAs whose scale factors tensor memory holds."""
        return ATOMS * ATOM_COLUMNS * self.block // MMA_K

    def ultra_mma(self):
        """An MMA of K 96."""
        group = tcgen05.CtaGroup.TWO if self.sms == 2 else tcgen05.CtaGroup.ONE
        return utils.sm100.sm103_make_blockscaled_trivial_tiled_mma(
            self.scale, self.block, group, self.tiler[:2]
        )

    def scales_in_tensor_memory(self, tiled_mma, first):
        """The first scale factors of A and of B, behind the sums."""
        column = self.pitch + self.tile[1]
        firsts = column, column + self.scale_columns[0]
        return tuple(cute.recast_ptr(first + at, dtype=self.scale) for at in firsts)

    def stage_of(self, round_first, number):
        """The index of a tile's stage `number`, of which the first one's is `round_first`."""
        at = round_first + number
        return select(at < self.stages, at, at - self.stages)

    def rows_at(self, first, mma, rows, round_first):
        """What an MMA reads of an operand whose stages begin at `first`, as a tensor of its descriptor."""
        start, within = divmod(mma * MMA_BYTES, LINE)
        end = (mma * MMA_BYTES + MMA_BYTES - 1) // LINE
        own, following = (
            first.toint() + self.stage_of(round_first, number) * (rows * LINE) for number in (start, end)
        )
        descriptor = Int64(OPERAND) | encoded(own + within) | encoded(following) << 16
        return cute.make_tensor(tcgen05.int_to_smem_descriptor(descriptor), cute.make_layout(1, stride=0))

    @cute.jit
    def copy_atoms(self, stages, first_atom: cutlass.Constexpr, round_first, scales, rows: cutlass.Constexpr):
        """Copies the scale factors of `rows` rows from a tile's atom `first_atom` on to tensor memory."""
        group = "tcgen05.cp.cta_group::2" if self.sms == 2 else "tcgen05.cp.cta_group::1"
        down = atoms_down(rows)
        for i in cutlass.range_constexpr(ATOMS * down):
            number, along = divmod(first_atom + i // down, self.atoms)
            stage = stages.toint() + self.stage_of(round_first, number) * self.scale_bytes(rows)
            address = stage + (i % down * self.atoms + along) * ATOM_BYTES
            descriptor = Int64(DESCRIPTOR) | encoded(address)
            column = scales.toint() + 4 * i
            asm(None, f"{group}.32x128b.warpx4 [$0], $1;", column, descriptor, effects=True)

    @cute.jit
    def multiply(self, tiled_mma, operands, memory, products, scales, ring, sums_ready, work: Work):
        """The warp of the MMA: the sums of each tile."""
        scales_a, scales_b = scales
        tile_m, tile_n, _ = self.tile
        stored_a, stored_b = memory.scales_a.data_ptr(), memory.scales_b.data_ptr()
        mma = self.ultra_mma()
        read = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, self.stages)
        done = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, self.stages)
        fill = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, self.pending)
        turn, block = Int32(0), self.first_block()
        while block < work.blocks:
            sums_ready.producer_acquire(fill)
            after_barrier()
            sums = products[None, 0, 0, turn]
            mma.set(tcgen05.Field.ACCUMULATE, False)
            for _ in cutlass.range(work.k_tiles // STAGES, unroll=1):
                first = read.index
                for i in cutlass.range_constexpr(MMAS):
                    if cutlass.const_expr(i % self.mmas_at_once == 0):
                        atom = i // self.mmas_at_once * ATOMS
                        for _ in cutlass.range_constexpr(self.stages_begun(i - 1), self.stages_begun(i)):
                            ring.consumer_wait(read)
                            read.advance()
                        with cute.arch.elect_one():
                            self.copy_atoms(stored_a, atom, first, scales_a, tile_m)
                            self.copy_atoms(stored_b, atom, first, scales_b, tile_n)
                    elif cutlass.const_expr(self.stages_begun(i) > self.stages_begun(i - 1)):
                        ring.consumer_wait(read)
                        read.advance()
                    factor = i % self.mmas_at_once * MMA_K // self.block
                    for field, from_first, rows in (
                        (tcgen05.Field.SFA, scales_a, tile_m),
                        (tcgen05.Field.SFB, scales_b, tile_n),
                    ):
                        atom_bytes = 4 * 4 * atoms_down(rows)
                        mma.set(field, from_first + (factor // 4 * atom_bytes + factor % 4))
                    cute.mma_atom_call(
                        mma,
                        sums,
                        self.rows_at(memory.a.data_ptr(), i, tile_m, first),
                        self.rows_at(memory.b.data_ptr(), i, tile_n // self.sms, first),
                        sums,
                    )
                    mma.set(tcgen05.Field.ACCUMULATE, True)
                    if cutlass.const_expr((i + 1) * MMA_BYTES // LINE > i * MMA_BYTES // LINE):
                        ring.consumer_release(done)
                        done.advance()
            sums_ready.producer_commit(fill)
            fill.advance()
            turn = 1 - turn
            self.meet_epilogue()
            block = self.next_block(block)
        sums_ready.producer_tail(fill)

    def stages_begun(self, mma):
        """Stages of a tile that its MMAs up to `mma` read, with the scale factors copied for them."""
        if mma < 0:
            return 0
        last_atom = (mma // self.mmas_at_once + 1) * ATOMS - 1
        last_byte = (mma + 1) * MMA_BYTES - 1
        return max(last_atom // self.atoms, last_byte // LINE) + 1


Program = UltraGemm
