// The header of generated CUTLASS `gemm` kernels for sm_90a. It includes only the CUTLASS headers that their
// collectives need (cutlass/gemm/collective/collective_builder.hpp would include those of all architectures), and
// converts a problem to CUTLASS's arguments.
#pragma once

#include "tilewright/tensor_map.hpp"  // before the rest of CUTLASS

#include "cutlass/cutlass.h"
#include "cutlass/gemm/collective/collective_builder_decl.hpp"
#include "cutlass/gemm/collective/collective_mma_decl.hpp"
#include "cutlass/gemm/collective/builders/sm90_gmma_builder.inl"
#include "cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized.hpp"
#include "cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized_fp8.hpp"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/kernel/gemm_universal_decl.h"
#include "cutlass/gemm/kernel/tile_scheduler.hpp"
#include "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_cooperative.hpp"
#include "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_pingpong.hpp"
#include "tilewright/epilogue.hpp"
#include "tilewright/gemm/problem.hpp"
