// Kernels whose forms run another main loop than the general code. A generated kernel names one of the structs below.
#pragma once

#include "tilewright/grouped_gemm/form.hpp"
#include "tilewright/grouped_gemm/kernel.hpp"
#include "tilewright/sm90/scaled_one_count.hpp"
#include "tilewright/sm90/scaled_rounds.hpp"

namespace tilewright::grouped_gemm {

// `Type`: the form `Whole` of kernel.hpp's Kernel, with the main loop that the mark of its A selects
// (sm90/scaled_rounds.hpp, sm90/scaled_one_count.hpp).
template <template <class> class Mark, class Whole>
struct MarkedForm;
template <template <class> class Mark, class A, class B, class D, int TileM, int TileN, int Boxes, int Stages,
          bool kSwapped, bool kMnA, bool kMnB, Scales kScalesA, Scales kScalesB, sm90::Promotion kPromotion,
          int kStoreBuffers, bool kPdl, Form kForm, bool kClusters>
struct MarkedForm<Mark, Kernel<A, B, D, TileM, TileN, Boxes, Stages, kSwapped, kMnA, kMnB, kScalesA, kScalesB,
                               kPromotion, kStoreBuffers, kPdl, kForm, kClusters>> {
  using Type = Kernel<Mark<A>, B, D, TileM, TileN, Boxes, Stages, kSwapped, kMnA, kMnB, kScalesA, kScalesB, kPromotion,
                      kStoreBuffers, kPdl, kForm, kClusters>;
};

// `Base` is kernel.hpp's Kernel.
template <class Base>
struct InRounds : Base {
  template <Form kForm, bool kClusters>
  using Of = typename MarkedForm<sm90::InRounds, typename Base::template Of<kForm, kClusters>>::Type;
};
template <class Base>
struct OneCount : Base {
  template <Form kForm, bool kClusters>
  using Of = typename MarkedForm<sm90::OneCount, typename Base::template Of<kForm, kClusters>>::Type;
};

}  // namespace tilewright::grouped_gemm
