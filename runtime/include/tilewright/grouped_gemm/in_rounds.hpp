// Kernels whose dense forms run their main loop in rounds (sm90/scaled_rounds.hpp).
#pragma once

#include <type_traits>

#include "tilewright/grouped_gemm/form.hpp"
#include "tilewright/grouped_gemm/kernel.hpp"
#include "tilewright/sm90/scaled_rounds.hpp"

namespace tilewright::grouped_gemm {

// A form of kernel.hpp's Kernel with that main loop.
template <class Whole>
struct FormInRounds;
template <class A, class B, class D, int TileM, int TileN, int Boxes, int Stages, bool kSwapped, bool kMnA, bool kMnB,
          Scales kScalesA, Scales kScalesB, sm90::Promotion kPromotion, int kStoreBuffers, bool kPdl, Form kForm,
          bool kClusters>
struct FormInRounds<Kernel<A, B, D, TileM, TileN, Boxes, Stages, kSwapped, kMnA, kMnB, kScalesA, kScalesB, kPromotion,
                           kStoreBuffers, kPdl, kForm, kClusters>> {
  using Type = Kernel<sm90::InRounds<A>, B, D, TileM, TileN, Boxes, Stages, kSwapped, kMnA, kMnB, kScalesA, kScalesB,
                      kPromotion, kStoreBuffers, kPdl, kForm, kClusters>;
};

// A kernel of kernel.hpp whose dense forms run in rounds.
template <class Base>
struct InRounds : Base {
  template <Form kForm, bool kClusters>
  using Of = std::conditional_t<kForm == Form::kDense,
                                typename FormInRounds<typename Base::template Of<Form::kDense, kClusters>>::Type,
                                typename Base::template Of<kForm, kClusters>>;
};

}  // namespace tilewright::grouped_gemm
