// The functions of the descriptors (abi.h) of lean `gemm` kernels, of their forms, and of kernels of mma.sync. Their
// host code is in the module's table, once for all kernels (lean_host.hpp).
#pragma once

#include "tilewright/gemm/lean_params.hpp"

namespace tilewright::gemm::lean {

template <class Store>
constexpr Box box_of() {
  return {Store::kBoxBytes, Store::kBoxRows, Store::kSwizzle};
}

// The facts of the kernel or form that `Traits` describes. `combining_entry`: of the kernel that adds up parts in the
// workspace; null if there is none.
template <class Traits>
constexpr Facts make_facts(void const* (*combining_entry)()) {
  using Kernel = typename Traits::Kernel;
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
  facts.box = box_of<typename Kernel::Store>();
  facts.shared_box = box_of<typename Kernel::SharedStore>();
  facts.entry = &Traits::entry;
  facts.combining_entry = combining_entry;
  return facts;
}

// The functions of a kernel's descriptor.
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
  // A local variable, because in C++14 a static member of a template would need a second definition.
  static Facts const& facts() {
    static constexpr Facts kFacts = make_facts<Traits>(&Traits::combining_entry);
    return kFacts;
  }
};

}  // namespace tilewright::gemm::lean
