// The header of generated `mixed_gemm` kernels that decode INT4 quickly.
#pragma once

#include "tilewright/mixed_gemm/mixed_gemm.hpp"
#include "tilewright/mixed_gemm/quick_int4.hpp"
