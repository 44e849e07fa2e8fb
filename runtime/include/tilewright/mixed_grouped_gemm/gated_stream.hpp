// The header of generated gated `mixed_grouped_gemm` kernels of few rows (gated.hpp).
#pragma once

#include "tilewright/mixed_grouped_gemm/stream.hpp"

namespace tilewright::mixed_grouped_gemm::stream {

// The gated kernel: Kernel with GatedElements.
template <class Type, class Format, class ElementD, int Slices, int Rows, int Warps, int Stages, int Blocks, bool kPdl>
using GatedKernel =
    Kernel<Type, Format, ElementD, Slices, Rows, Warps, Stages, Blocks, kPdl, mixed_gemm::stream::GatedElements>;

}  // namespace tilewright::mixed_grouped_gemm::stream
