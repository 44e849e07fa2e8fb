// Block-scaled mma.sync in software (sm120/mma_definition.hpp) for every GPU, one function for all of a kernel's
// products: inlined, they would be a million instructions. software_kernels.py puts this text before a generated
// unit, which then compiles for sm_90a.
#pragma once

#include "tilewright/sm120/mma.hpp"

namespace tilewright::sm120 {

template <class Form>
__device__ __noinline__ void multiply_by_call(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2],
                                              uint32_t a_scales, uint32_t b_scales, ScaleSource source) {
  Form::software(d, a, b, a_scales, b_scales, source);
}

// A form of mma.hpp whose instruction is a call.
template <class Form>
struct ByCall : Form {
  template <int kByteA = 0, int kByteB = 0, int kThreadA = 0, int kThreadB = 0>
  static __device__ __forceinline__ void mma(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2],
                                             uint32_t a_scales, uint32_t b_scales) {
    static_assert(Form::takes(kByteA, kByteB, kThreadA, kThreadB));
    multiply_by_call<Form>(d, a, b, a_scales, b_scales, {kByteA, kByteB, kThreadA, kThreadB});
  }
};

template <class A, class B>
struct Mxf8ByCall : ByCall<MmaMxf8<A, B>> {};
struct Mxf4ByCall : ByCall<MmaMxf4> {};
struct Nvf4ByCall : ByCall<MmaNvf4> {};

}  // namespace tilewright::sm120

// The names by which kernels know the forms.
#define MmaMxf8 Mxf8ByCall
#define MmaMxf4 Mxf4ByCall
#define MmaNvf4 Nvf4ByCall
