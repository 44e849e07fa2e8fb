// The header of generated `gemm` kernels with the mma mainloop: the kernel, and the functions of its descriptor.
#pragma once

#include "tilewright/descriptor.hpp"
#include "tilewright/gemm/lean_calls.hpp"
#include "tilewright/gemm/mma_kernel.hpp"

namespace tilewright::gemm::mma {

// The functions of a kernel's descriptor: those of lean kernels, for launches without clusters.
template <class Traits>
struct Calls : lean::Calls<Traits> {
  static int32_t can_implement(void const* args) {
    return alone(args) ? lean::Calls<Traits>::can_implement(args) : TILEWRIGHT_NOT_SUPPORTED;
  }

  static int32_t launch(void const* args, void* workspace, void* stream) {
    return alone(args) ? lean::Calls<Traits>::launch(args, workspace, stream) : TILEWRIGHT_NOT_SUPPORTED;
  }

 private:
  // Whether each thread block is a cluster of its own.
  static bool alone(void const* args) {
    tilewright_tactic const& tactic = static_cast<tilewright_gemm_args const*>(args)->tactic;
    return tactic.cluster_m <= 1 && tactic.cluster_n <= 1 &&
           (tactic.splits == 1 || tactic.decomposition == TILEWRIGHT_DECOMPOSE_SPLIT_K);
  }
};

}  // namespace tilewright::gemm::mma

#define TILEWRIGHT_MMA_GEMM_KERNEL(NAME)                                                                               \
  TILEWRIGHT_COMBINING_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::sm90::Combine<tilewright::NAME::Gemm::Kernel>, \
                              tilewright::sm90::CombineParams)                                                         \
  TILEWRIGHT_DEFINE_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::gemm::mma::Calls<tilewright::NAME::Gemm>, 1, 1024)
