// The header of generated gated balanced `mixed_gemm` kernels with 40 columns that decode INT4 quickly.
#pragma once

#include "tilewright/mixed_gemm/quick_int4_gated_balanced.hpp"
#include "tilewright/mixed_gemm/wgmma_40.hpp"
