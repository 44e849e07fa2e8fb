// The columns of a wgmma for tiles that have few rows of activations.
#pragma once

namespace tilewright::mixed_fp8_gemm {

// About half of `Width` columns, a width that wgmma.hpp has.
template <int Width>
constexpr int kHalfWidth = Width >= 128  ? 64
                           : Width >= 96 ? 48
                                         : 32;

}  // namespace tilewright::mixed_fp8_gemm
