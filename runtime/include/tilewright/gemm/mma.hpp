// The header of generated `gemm` kernels with the mma mainloop: the kernel, and its facts for the host.
#pragma once

#include "tilewright/descriptor.hpp"
#include "tilewright/gemm/lean_params.hpp"
#include "tilewright/gemm/mma_kernel.hpp"

namespace tilewright::gemm::mma {

// What the host knows of a kernel, which is a StagedKernel.
template <class Traits>
constexpr lean::Facts make_facts() {
  using Kernel = typename Traits::Kernel;
  lean::Facts facts{};
  facts.tile_m = Kernel::TileM;
  facts.tile_n = Kernel::TileN;
  facts.tile_k = Kernel::kTileBytesK / Kernel::ElementA::kBytes;
  facts.bytes = Kernel::ElementA::kBytes;
  facts.bytes_d = Kernel::ElementD::kBytes;
  facts.vector_d = 16 / Kernel::ElementD::kBytes;
  facts.sums = Kernel::TileSums::kCount;
  facts.threads = Kernel::kThreads;
  facts.shared_bytes = Kernel::kSharedBytes;
  facts.addend_d = Kernel::ElementD::kAddend;
  facts.activation = Kernel::kActivation;
  facts.mn_a = Kernel::kMnA;
  facts.mn_b = Kernel::kMnB;
  facts.swapped = Kernel::kSwapped;
  facts.pdl = Traits::kPdl;
  facts.boxes = Kernel::Store::kBoxes;
  facts.c_by_tma = Kernel::kBarriersOfC > 0;
  facts.epilogue_through_smem = true;  // every epilogue, though from registers
  facts.box = facts.shared_box = {Kernel::Store::kBoxBytes, Kernel::Store::kBoxRows, Kernel::Store::kSwizzle};
  facts.entry = &Traits::entry;
  facts.combining_entry = &Traits::combining_entry;
  return facts;
}

// The functions of a kernel's descriptor. They call the host code that the module's table has for all kernels
// (lean_host.hpp), which knows clusters: none is left to it here.
template <class Traits>
struct Calls {
  using Kernel = typename Traits::Kernel;
  using Args = tilewright_gemm_args;

  static int32_t can_implement(void const* args) {
    return alone(args) ? lean::can_implement(facts(), args) : TILEWRIGHT_NOT_SUPPORTED;
  }

  static int64_t workspace_bytes(void const* args) { return lean::workspace_bytes(facts(), args); }

  static int32_t launch(void const* args, void* workspace, void* stream) {
    return alone(args) ? lean::launch(facts(), args, workspace, stream) : TILEWRIGHT_NOT_SUPPORTED;
  }

 private:
  // Whether each thread block is a cluster of its own.
  static bool alone(void const* args) {
    tilewright_tactic const& tactic = static_cast<Args const*>(args)->tactic;
    return tactic.cluster_m <= 1 && tactic.cluster_n <= 1 &&
           (tactic.splits == 1 || tactic.decomposition == TILEWRIGHT_DECOMPOSE_SPLIT_K);
  }

  // A local variable: C++14 wants a static member of a template defined a second time.
  static lean::Facts const& facts() {
    static constexpr lean::Facts kFacts = make_facts<Traits>();
    return kFacts;
  }
};

}  // namespace tilewright::gemm::mma

#define TILEWRIGHT_MMA_GEMM_KERNEL(NAME)                                                                               \
  TILEWRIGHT_COMBINING_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::sm90::Combine<tilewright::NAME::Gemm::Kernel>, \
                              tilewright::sm90::CombineParams)                                                         \
  TILEWRIGHT_DEFINE_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::gemm::mma::Calls<tilewright::NAME::Gemm>, 1, 1024)
