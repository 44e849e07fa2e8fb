"""The epilogue of matrix products by tcgen05 with a D of FP8, as sm90/element_epilogue.hpp has it: the call's
amax is raised to the largest magnitude of the results, which are then multiplied by scale_result."""

from typing import NamedTuple

import cutlass
from cutlass import Uint32, cute
from tilewright_programs.gemm.tcgen05_ranges import Ranges
from tilewright_programs.gemm.tcgen05_results import Added, Target
from tilewright_programs.quantize.nvfp4_numbers import asm, bits_of, select

FP8 = ("e4m3", "e5m2")
MAGNITUDE = 0x7FFFFFFF  # the bits of a float without its sign; as integers NaN's are the largest
# `Added`, with what a D of FP8 has besides: pointers to floats, or null.
Scaled = NamedTuple(
    "Scaled",
    [*Added.__annotations__.items(), ("scale_result", cute.Pointer), ("amax", cute.Pointer)],
)


class ScaledResults(Ranges):
    """The epilogue of a kernel whose D may be FP8."""

    @cute.jit
    def finish(self, values, factor, size_of_c, place, rows, start, added, to: Target):
        Ranges.finish(self, values, factor, size_of_c, place, rows, start, added, to)
        if cutlass.const_expr(self.d in FP8):
            if added.amax.toint() != 0:
                self.raise_amax(values, place[1] * self.tile[1] + start, rows[0], added.amax, to)
            if added.scale_result.toint() != 0:
                self.scale_sums(values, cute.make_tensor(added.scale_result, cute.make_layout(1))[0])

    @cute.jit
    def raise_amax(self, values, first, own, amax, to: Target):
        """Raises `amax` to the largest magnitude of a warp's values that are elements of D. A thread's are
        those of row `own` from column `first` on, or of a swapped kernel the other way about."""
        rows, columns = to.m, to.n
        if cutlass.const_expr(self.swapped):
            rows, columns = to.n, to.m
        largest = Uint32(0)
        for i in cutlass.range_constexpr(cute.size(values)):
            magnitude = bits_of(values[i]) & Uint32(MAGNITUDE)
            largest = cutlass.max(largest, select(first + i < columns, magnitude, Uint32(0)))
        largest = select(own < rows, largest, Uint32(0))
        largest = asm(Uint32, "redux.sync.max.u32 $0, $1, 0xffffffff;", largest, effects=True)
        with cute.arch.elect_one():
            asm(None, "red.global.max.u32 [$0], $1;", amax.toint(), largest, effects=True)
