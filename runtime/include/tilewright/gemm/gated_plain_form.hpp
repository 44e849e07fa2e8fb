// The plain forms (plain_form.hpp) of a lean `gemm` kernel with a gated activation, for products without bias, scales
// and alpha.
#pragma once

#include <cstdint>

#include "tilewright/gemm/gated.hpp"
#include "tilewright/gemm/plain_form.hpp"
#include "tilewright/sm90/row_fate.hpp"

namespace tilewright::gemm::gated {

// The parameters of an epilogue that neither scales nor adds: no C, no scales, and an alpha of 1.
__device__ constexpr sm90::EpilogueParams kPlainEpilogue{nullptr, nullptr, nullptr, 1.0f};

// What a PlainForm takes as its Base here: the general code `Kernel`, with another store policy.
template <class Kernel>
struct PlainKernel : Kernel {
  // The kernel's store policy with constant parameters, so that the compiler leaves out scales and bias. TMA needs no
  // parameters to store D: the tensor map says all.
  struct Store : Kernel::Store {
    __device__ __forceinline__ Store(sm90::EpilogueParams const&, CUtensorMap const* d, uint32_t shared, int consumer)
        : Kernel::Store(kPlainEpilogue, d, shared, consumer) {}

    template <int Rows, int Sums>
    __device__ __forceinline__ void store_rows(float const (&sums)[Rows][Sums], int row, int column, int matrix,
                                               sm90::EveryRow const&) {
      this->store(sums, row, column, matrix);
    }
  };
};

// Describes `PlainKernel` as `Traits` describes the kernel.
template <class Traits>
struct PlainTraits {
  using Kernel = PlainKernel<typename Traits::Kernel>;
  static constexpr bool kPdl = Traits::kPdl;
};

// The functions of the descriptor of a kernel that has plain forms.
template <class Traits>
using CallsWithForms = lean::PlainFormsFirst<Calls, Traits, PlainTraits<Traits>>;

}  // namespace tilewright::gemm::gated

// TILEWRIGHT_GATED_GEMM_KERNEL (gated.hpp) for a kernel that has plain forms.
#define TILEWRIGHT_GATED_GEMM_KERNEL_WITH_FORMS(NAME)                                       \
  extern "C" __global__ void __cluster_dims__()                                             \
      NAME(__grid_constant__ typename tilewright::NAME::Gemm::Kernel::Params const params); \
  TILEWRIGHT_DEFINE_KERNEL(NAME, tilewright::NAME::Gemm,                                    \
                           tilewright::gemm::gated::CallsWithForms<tilewright::NAME::Gemm>, 1, 1024)
