// The header of generated `blockscaled_gemm` kernels with the mainloop of mma.sync: the kernel, and its facts for the
// host.
#pragma once

#include "tilewright/blockscaled_gemm/appended_args.h"
#include "tilewright/blockscaled_gemm/mma_kernel.hpp"
#include "tilewright/blockscaled_gemm/mma_params.hpp"
#include "tilewright/descriptor.hpp"
#include "tilewright/gemm/lean_calls.hpp"

namespace tilewright::blockscaled_gemm::mma {

// The functions of a kernel's descriptor. They call the host code that the module's table has for all kernels
// (mma_host.hpp).
template <class Traits>
struct Calls {
  using Kernel = typename Traits::Kernel;
  using Args = tilewright_blockscaled_gemm_appended_args;

  static int32_t can_implement(void const* args) { return mma::can_implement(facts(), args); }

  static int64_t workspace_bytes(void const* args) { return mma::workspace_bytes(facts(), args); }

  static int32_t launch(void const* args, void* workspace, void* stream) {
    return mma::launch(facts(), args, workspace, stream);
  }

 private:
  static constexpr Facts make_facts() {
    using Layout = typename Kernel::Layout;
    Facts facts{};
    facts.a = {Kernel::FormatA::kBits, Kernel::kRowBytesA, Layout::kAtomRowsA, Kernel::kAtoms, Layout::kRowBlocksA};
    facts.b = {Kernel::FormatB::kBits, Kernel::kRowBytesB, Layout::kAtomRowsB, Kernel::kAtoms, Layout::kRowBlocksB};
    facts.bytes = gemm::lean::make_facts<Traits>(&Traits::combining_entry);
    facts.boxes = Kernel::Boxes;
    facts.block = Kernel::kBlock;
    return facts;
  }

  // A local variable, because in C++14 a static member of a template would need a second definition.
  static Facts const& facts() {
    static constexpr Facts kFacts = make_facts();
    return kFacts;
  }
};

}  // namespace tilewright::blockscaled_gemm::mma

#define TILEWRIGHT_BLOCKSCALED_GEMM_MMA_KERNEL(NAME)                                                                   \
  TILEWRIGHT_COMBINING_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::sm90::Combine<tilewright::NAME::Gemm::Kernel>, \
                              tilewright::sm90::CombineParams)                                                         \
  TILEWRIGHT_DEFINE_KERNEL(NAME, tilewright::NAME::Gemm,                                                               \
                           tilewright::blockscaled_gemm::mma::Calls<tilewright::NAME::Gemm>, 1, 1024)
