// The header of generated gated balanced `mixed_gemm` kernels with 40 columns.
#pragma once

#include "tilewright/mixed_gemm/gated_balanced.hpp"
#include "tilewright/mixed_gemm/wgmma_40.hpp"
