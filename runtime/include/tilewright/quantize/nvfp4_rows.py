"""What threads of `quantize` kernels in CuTe-DSL do with their rows: nvfp4_program.py has the kernels.

A thread takes 16 neighbouring elements, which share a scale, of four rows at a time. Four neighbouring
threads have the scales of a word for each of the rows; they exchange them so that each thread stores the word
of one row.
"""

from dataclasses import dataclass
from typing import NamedTuple

import cutlass
from cutlass import BFloat16, Float16, Float32, Int32, Int64, Uint8, Uint32, cute
from tilewright_programs.quantize.nvfp4_numbers import (
    amax_of,
    asm,
    encode,
    factor_of,
    permute,
    scale_of,
    select,
    unpack,
    widen,
)
from tilewright_programs.quantize.nvfp4_thresholds import CODES, WORDS, quantize

TYPES = {"bf16": BFloat16, "f16": Float16, "e4m3": Uint8}
ROWS, BLOCK, WORD = 4, 16, 4  # rows of a thread; elements of a scale; scales of a word
LINE = 128  # bytes of a row of a box
SCALES_128X4, SCALES_8X4, SCALES_LINEAR = 0, 1, 2  # tilewright_scale_layout


class Params(NamedTuple):
    """The parameters of a kernel's function, in the order in which quantize/cute_dsl_host.hpp passes them."""

    x: Int64
    data: Int64
    scales: Int64
    global_scale: Int64
    rows_valid: Int64
    row_x: Int64  # bytes between rows, and between groups
    group_x: Int64
    row_data: Int64
    group_data: Int64
    group_scales: Int64
    m: Int32
    k: Int32
    columns: Int32  # of scales
    padded_columns: Int32
    padded_rows: Int32
    row_tasks: Int32  # of a group, then of all
    total_row_tasks: Int32
    column_tasks: Int32
    chunks: Int32  # of a thread's elements, along a row, in a task
    row_step: Int32  # from one task of a thread block to the next
    column_step: Int32
    layout: Int32
    scale_per_row: Int32


def load(space, address):
    """Sixteen bytes. No load moves above the wait for the previous kernel."""
    return asm((Uint32,) * 4, f"ld.{space}.v4.u32 {{$0, $1, $2, $3}}, [$4];", address, effects=True)


LOAD_32_BYTES = "ld.global.nc.v8.b32 {$0, $1, $2, $3, $4, $5, $6, $7}, [$8];"


@cute.jit
def load_32_bytes(address):
    """The eight words at an address: with one instruction, which targets starting at sm_100 have, if the
    address is a multiple of 32. All lanes of a warp load the same row, so none diverges."""
    a, b, c, d, e, f, g, h = [Uint32(0)] * 8
    if address & 31 == 0:
        a, b, c, d, e, f, g, h = asm((Uint32,) * 8, LOAD_32_BYTES, address, effects=True)
    else:
        a, b, c, d = load("global.nc", address)
        e, f, g, h = load("global.nc", address + 16)
    return a, b, c, d, e, f, g, h


def load_word(kind, address):
    return asm(kind, "ld.global.nc.b32 $0, [$1];", address, effects=True)


def prefetch(address):
    asm(None, "prefetch.global.L2 [$0];", address, effects=True)


@dataclass(frozen=True)
class Rows:
    """Rows of NVFP4, as a kernel takes them."""

    x: str
    variant: str
    threads: int  # that quantise
    stages: int
    converts: bool  # whether the target has the conversion to E2M1
    blocks: int  # thread blocks that an SM should hold
    pdl: bool
    shared_bytes: int

    @property
    def by_tma(self):
        return self.variant == "tma"

    @property
    def by_thresholds(self):
        """Whether E4M3 is compared with thresholds, where all rows have one global scale: on targets without
        an instruction that converts to E2M1."""
        return self.x == "e4m3" and not self.converts

    @property
    def table_words(self):
        """Words of the table in shared memory: the factors of all codes of scales, or thresholds."""
        return CODES * WORDS if self.by_thresholds else 2 * CODES

    def factors(self, memory):
        """The factors of all codes of scales, in shared memory."""
        return cute.make_tensor(memory.table.data_ptr(), cute.make_layout(2 * CODES))

    def address(self, p, group, row, column):
        """Where an element of x is in global memory."""
        return p.x + group * p.group_x + row * p.row_x + Int64(column) * (TYPES[self.x].width // 8)

    @property
    def thread_bytes(self):
        """Bytes of x that a thread takes of a row."""
        return BLOCK * TYPES[self.x].width // 8

    @property
    def lanes(self):
        """Neighbouring threads that take the same row: those of a line of a box, or a warp."""
        return LINE // self.thread_bytes if self.by_tma else 32

    @property
    def box(self):
        """The rows and columns that a thread block takes at a time."""
        return self.threads // self.lanes * ROWS, self.lanes * BLOCK

    @cute.jit
    def load_rows(self, p, group, first, step, column, limit):
        """A thread's words of its four rows in global memory; 0 where nothing counts."""
        words = []
        for i in cutlass.range_constexpr(ROWS):
            row = first + i * step
            address = self.address(p, group, row, column)
            a, b, c, d, e, f, g, h = [Uint32(0)] * 8
            if row < limit and column < p.k:
                if cutlass.const_expr(self.converts and self.thread_bytes == 32):
                    a, b, c, d, e, f, g, h = load_32_bytes(address)
                else:
                    a, b, c, d = load("global.nc", address)
                    if cutlass.const_expr(self.thread_bytes == 32):
                        e, f, g, h = load("global.nc", address + 16)
            words.append([a, b, c, d, e, f, g, h][: self.thread_bytes // 4])
        return words

    def read_row(self, box, row, part):
        """A thread's words of a row of a box, whose address is `box`. TMA swapped the 16 bytes of a line."""
        words = []
        for j in range(self.thread_bytes // 16):
            place = part * (self.thread_bytes // 16) + j
            words += load("volatile.shared", box + row * LINE + ((place ^ (row & 7)) << 4))
        return words

    @cute.jit
    def quantize_row(self, p, words, code_scale, memory, per_row: cutlass.Constexpr):
        """The scale's code, and two words of data, of a thread's elements of a row."""
        pairs, kind = words, self.x
        if cutlass.const_expr(self.x == "e4m3"):
            pairs, kind = [pair for word in words for pair in widen(word)], "f16"
        amax = amax_of(kind, pairs)
        code = scale_of(amax, code_scale)
        if cutlass.const_expr(per_row):
            factor = factor_of(code, code_scale)
        else:
            factor = self.factors(memory)[Int32(code)]
        values = [value for pair in pairs for value in unpack(kind, pair)]
        first, second = encode(values, factor, amax == 0.0, self.converts)
        return code, first, second

    @cute.jit
    def quantize_rows(self, p, memory, source, place, scale, per_row: cutlass.Constexpr):
        """Quantises and stores a thread's elements of four rows. `source`: its words; or the address of a
        box, the thread's first row in it, and its place in a row."""
        group, first, step, column, limit = place
        codes = Uint32(0)
        for i in cutlass.range_constexpr(ROWS):
            row = first + i * step
            if cutlass.const_expr(self.by_tma):
                box, in_box, part = source
                words = self.read_row(box, in_box + i * step, part)
            else:
                words = source[i]
            own = scale
            if cutlass.const_expr(per_row):
                if row < limit:
                    own = load_word(Float32, p.global_scale + 4 * (group * p.m + row))
            if cutlass.const_expr(self.by_thresholds and not per_row):
                code, low, high = quantize(words, memory.table.data_ptr().toint())
            else:
                code, low, high = self.quantize_row(p, words, own, memory, per_row)
            if row < limit and column < p.k:
                address = p.data + group * p.group_data + row * p.row_data + column // 2
                asm(None, "st.global.v2.u32 [$0], {$1, $2};", address, low, high, effects=True)
                codes = codes | code << (8 * i)
        self.store_scales(p, place, codes)

    @cute.jit
    def store_scales(self, p, place, codes):
        """Stores a word of scales. `codes`: a thread's scales of four rows. The exchanges turn them into the
        scales of four threads for one row."""
        group, first, step, column, _ = place
        number = cute.arch.lane_idx() % WORD
        partner = cute.arch.shuffle_sync_bfly(codes, offset=1)
        codes = permute(codes, partner, select(number & 1 != 0, Uint32(0x3715), Uint32(0x6240)))
        partner = cute.arch.shuffle_sync_bfly(codes, offset=2)
        codes = permute(codes, partner, select(number & 2 != 0, Uint32(0x3276), Uint32(0x5410)))
        row, scale_column = first + number * step, column // BLOCK - number
        if row < p.padded_rows and scale_column < p.padded_columns:
            across = Int64(p.padded_columns)
            at = Int64(row) * p.columns + scale_column
            if p.layout == SCALES_128X4:
                at = (
                    (row >> 7) * across * 128
                    + Int64(scale_column) * 128
                    + (row & 31) * 16
                    + (row >> 5 & 3) * 4
                )
            if p.layout == SCALES_8X4:
                at = (row >> 3) * across * 8 + Int64(scale_column) * 8 + (row & 7) * 4
            address = p.scales + group * p.group_scales + at
            if p.layout != SCALES_LINEAR or p.columns % WORD == 0:
                asm(None, "st.global.u32 [$0], $1;", address, codes, effects=True)
            else:
                for i in cutlass.range_constexpr(WORD):
                    if scale_column + i < p.columns:
                        asm(None, "st.global.u8 [$0], $1;", address + i, codes >> (8 * i), effects=True)
