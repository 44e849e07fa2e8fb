// The header that generated lean `gemm` kernels with a gated activation for sm_90a include: the kernel, and the
// functions of its descriptor.
#pragma once

#include "tilewright/descriptor.hpp"
#include "tilewright/gemm/gated_kernel.hpp"
#include "tilewright/gemm/gated_params.hpp"

namespace tilewright::gemm::gated {

// The functions of a kernel's descriptor (abi.h), or of a plain form's. They pass its Facts to the host code that the
// module's table has once for all kernels (gated_host.hpp).
template <class Traits, bool kPlainForm = false>
struct Calls {
  using Kernel = typename Traits::Kernel;
  using Args = tilewright_gemm_args;

  static int32_t can_implement(void const* args) { return gated::can_implement(facts(), args); }

  static int64_t workspace_bytes(void const* args) { return gated::workspace_bytes(facts(), args); }

  static int32_t launch(void const* args, void* workspace, void* stream) {
    return gated::launch(facts(), args, workspace, stream);
  }

 private:
  template <class Store>
  static constexpr lean::Box box() {
    return {Store::kBoxBytes, Store::kBoxRows, Store::kSwizzle};
  }

  // Facts that stay 0 say what this kernel lacks: MN-major operands, C, and the second kernel of a split k.
  static constexpr Facts make_facts() {
    Facts facts{};
    facts.tile_m = Kernel::TileM;
    facts.tile_n = Kernel::TileN;
    facts.tile_k = Kernel::kTileBytesK / Kernel::ElementA::kBytes;
    facts.bytes = Kernel::ElementA::kBytes;
    facts.bytes_d = Kernel::ElementD::kBytes;
    facts.vector_d = 16 / Kernel::ElementD::kBytes;
    facts.threads = Kernel::kThreads;
    facts.shared_bytes = Kernel::kSharedBytes;
    facts.addend_d = Kernel::ElementD::kAddend;
    facts.activation = Kernel::kActivation;
    facts.swapped = Kernel::kSwapped;
    facts.pdl = Traits::kPdl;
    facts.boxes = Kernel::Store::kBoxes;
    facts.epilogue_through_smem = Kernel::kEpilogueThroughSmem;
    facts.box = box<typename Kernel::Store>();
    facts.shared_box = box<typename Kernel::SharedStore>();
    facts.entry = &Traits::entry;
    facts.plain_form = kPlainForm;
    return facts;
  }

  // A local variable, because in C++14 a static member of a template would need a second definition.
  static Facts const& facts() {
    static constexpr Facts kFacts = make_facts();
    return kFacts;
  }
};

}  // namespace tilewright::gemm::gated

// As TILEWRIGHT_LEAN_GEMM_KERNEL (lean.hpp), without the second kernel.
#define TILEWRIGHT_GATED_GEMM_KERNEL(NAME)                                                                          \
  extern "C" __global__ void __cluster_dims__()                                                                     \
      NAME(__grid_constant__ typename tilewright::NAME::Gemm::Kernel::Params const params);                         \
  TILEWRIGHT_DEFINE_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::gemm::gated::Calls<tilewright::NAME::Gemm>, 1, \
                           1024)
