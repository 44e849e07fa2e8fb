// The header of generated gated `mixed_gemm` kernels whose thread blocks have equal work: the kernel, and its adapter
// to `tilewright_kernel`.
#pragma once

#include "tilewright/mixed_gemm/balanced.hpp"
#include "tilewright/mixed_gemm/gated_kernel.hpp"
#include "tilewright/mixed_gemm/gated_maker.hpp"

namespace tilewright::mixed_gemm {

// The types and constants of a gated balanced kernel: those of GatedTypes, with the parameters of a balanced kernel.
template <class Type, class Format, class ElementD, int TileM, int TileN, int Pieces, int Stages, int Consumers,
          bool kPdl>
struct GatedBalancedTypes : GatedTypes<Type, Format, ElementD, TileM, TileN, Pieces, Stages, Consumers, 1, kPdl> {
  using Params = BalancedParams<TileN>;
};

template <class Type, class Format, class ElementD, int TileM, int TileN, int Pieces, int Stages, int Consumers,
          bool kPdl>
using GatedBalancedKernel =
    BalancedPhases<GatedBalancedTypes<Type, Format, ElementD, TileM, TileN, Pieces, Stages, Consumers, kPdl>>;

template <class Traits>
using GatedBalancedHost = sm90::ClusteredHost<Traits, GatedMaker<BalancedMaker<Traits>>>;

}  // namespace tilewright::mixed_gemm

// The first declaration says `__cluster_dims__`: see TILEWRIGHT_LEAN_GEMM_KERNEL.
#define TILEWRIGHT_GATED_BALANCED_MIXED_GEMM_KERNEL(NAME)                                    \
  extern "C" __global__ void __cluster_dims__()                                              \
      NAME(__grid_constant__ typename tilewright::NAME::Mixed::Kernel::Params const params); \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Mixed, tilewright::mixed_gemm::GatedBalancedHost, 1, 1024)
