// What a generated lean `gemm` kernel for sm_90a includes: the kernel, and what its host knows of it.
#pragma once

#include "tilewright/descriptor.hpp"
#include "tilewright/gemm/lean_kernel.hpp"
#include "tilewright/gemm/lean_params.hpp"

namespace tilewright::gemm::lean {

// What a descriptor has, by the code that the module's table has for all kernels.
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

  // No member, which C++14 would want defined once more.
  static Facts const& facts() {
    static constexpr Facts kFacts{
        Kernel::TileM,
        Kernel::TileN,
        Kernel::kTileBytesK / Kernel::ElementA::kBytes,
        Kernel::ElementA::kBytes,
        Kernel::ElementD::kBytes,
        16 / Kernel::ElementD::kBytes,
        Kernel::TileSums::kCount,
        Kernel::kThreads,
        Kernel::kSharedBytes,
        Kernel::ElementD::kAddend,
        Kernel::kActivation,
        Kernel::kMnA,
        Kernel::kMnB,
        Kernel::kSwapped,
        Traits::kPdl,
        Kernel::Store::kBoxes,
        Kernel::kBarriersOfC > 0,
        Kernel::kExchanges,
        box<typename Kernel::Store>(),
        box<typename Kernel::SharedStore>(),
        &Traits::entry,
        &Traits::combining_entry,
    };
    return kFacts;
  }
};

}  // namespace tilewright::gemm::lean

// Declared first as one that is launched in clusters, whatever their size: else ptxas asks at each of their barriers
// whether there is one.
#define TILEWRIGHT_LEAN_GEMM_KERNEL(NAME)                                                                              \
  extern "C" __global__ void __cluster_dims__()                                                                        \
      NAME(__grid_constant__ typename tilewright::NAME::Gemm::Kernel::Params const params);                            \
  TILEWRIGHT_COMBINING_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::sm90::Combine<tilewright::NAME::Gemm::Kernel>, \
                              tilewright::sm90::CombineParams)                                                         \
  TILEWRIGHT_DEFINE_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::gemm::lean::Calls<tilewright::NAME::Gemm>, 1, 1024)
