// The header that generated lean `gemm` kernels for sm_90a include: the kernel, and the functions of its descriptor.
#pragma once

#include "tilewright/descriptor.hpp"
#include "tilewright/gemm/lean_kernel.hpp"
#include "tilewright/gemm/lean_params.hpp"

namespace tilewright::gemm::lean {

// The functions of a kernel's descriptor (abi.h). They pass the kernel's Facts to the host code that the module's table
// has once for all kernels (lean_host.hpp).
template <class Traits>
struct Calls {
  using Kernel = typename Traits::Kernel;
  using Args = tilewright_gemm_args;

  static int32_t can_implement(void const* args) { return lean::can_implement(facts(), args); }

  static int64_t workspace_bytes(void const* args) { return lean::workspace_bytes(facts(), args); }

  static int32_t launch(void const* args, void* workspace, void* stream) {
    return lean::launch(facts(), args, workspace, stream);
  }

 private:
  template <class Store>
  static constexpr Box box() {
    return {Store::kBoxBytes, Store::kBoxRows, Store::kSwizzle};
  }

  static constexpr Facts make_facts() {
    Facts facts{};
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
    facts.epilogue_through_smem = Kernel::kEpilogueThroughSmem;
    facts.box = box<typename Kernel::Store>();
    facts.shared_box = box<typename Kernel::SharedStore>();
    facts.entry = &Traits::entry;
    facts.combining_entry = &Traits::combining_entry;
    return facts;
  }

  // A local variable, because in C++14 a static member of a template would need a second definition.
  static Facts const& facts() {
    static constexpr Facts kFacts = make_facts();
    return kFacts;
  }
};

}  // namespace tilewright::gemm::lean

// Defines the kernel NAME, its second kernel for parts of k in the workspace, and its descriptor. The first declaration
// says `__cluster_dims__()` without a size: the kernel is launched in clusters of a size that the launch says. Without
// it, ptxas tests at each cluster barrier whether the kernel runs in a cluster.
#define TILEWRIGHT_LEAN_GEMM_KERNEL(NAME)                                                                              \
  extern "C" __global__ void __cluster_dims__()                                                                        \
      NAME(__grid_constant__ typename tilewright::NAME::Gemm::Kernel::Params const params);                            \
  TILEWRIGHT_COMBINING_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::sm90::Combine<tilewright::NAME::Gemm::Kernel>, \
                              tilewright::sm90::CombineParams)                                                         \
  TILEWRIGHT_DEFINE_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::gemm::lean::Calls<tilewright::NAME::Gemm>, 1, 1024)
