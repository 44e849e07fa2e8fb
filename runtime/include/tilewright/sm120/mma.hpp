// mma.sync of sm_120: d += a b^T for 16 rows of A and 8 columns of B, in the registers of one warp. mma_definition.hpp
// says where elements and scale factors lie.
//
// A form has kM, kN, kK, Sum (the type of D), and `mma`. Forms with scale factors have kBlocks factors along k for
// each row and column; `mma` takes a register of factors for A and one for B, and which bytes and threads of a quad
// hold them. A GPU that lacks a form computes it in software; `software` does so anywhere.
#pragma once

#include <cstdint>

#include "tilewright/sm120/mma_definition.hpp"
#include "tilewright/sm90/elements.hpp"

namespace tilewright::sm120 {

namespace detail {

// Registers of other lanes of the warp. Every lane of the warp asks for the same word at the same time.
struct WarpLanes {
  uint32_t const (&a_words)[4];
  uint32_t const (&b_words)[2];
  uint32_t a_factors, b_factors;

  __device__ __forceinline__ uint32_t a(int lane, int word) const { return __shfl_sync(~0u, a_words[word], lane); }
  __device__ __forceinline__ uint32_t b(int lane, int word) const { return __shfl_sync(~0u, b_words[word], lane); }
  __device__ __forceinline__ uint32_t a_scales(int lane) const { return __shfl_sync(~0u, a_factors, lane); }
  __device__ __forceinline__ uint32_t b_scales(int lane) const { return __shfl_sync(~0u, b_factors, lane); }
};

// What the forms share. `Derived` is the form.
template <class Derived, class CodeA_, class CodeB_, class Sum_ = float, class Exact_ = double>
struct Form {
  using CodeA = CodeA_;
  using CodeB = CodeB_;
  using Sum = Sum_;
  using Exact = Exact_;  // holds sums in software
  static_assert(CodeA::kBits == CodeB::kBits);
  static constexpr int kM = 16, kN = 8, kK = 8 * 32 / CodeA::kBits, kBlocks = 0;

  static __device__ __forceinline__ void software(Sum (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2]) {
    multiply_in_software<Derived>(d, threadIdx.x % 32, WarpLanes{a, b, 0, 0});
  }
};

template <class Derived, class CodeA, class CodeB, class CodeScale_, int kBlocks_>
struct ScaledForm : Form<Derived, CodeA, CodeB> {
  using CodeScale = CodeScale_;
  static constexpr int kBlocks = kBlocks_;

  static __device__ __forceinline__ void software(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2],
                                                  uint32_t a_scales, uint32_t b_scales, ScaleSource source) {
    multiply_in_software<Derived>(d, threadIdx.x % 32, WarpLanes{a, b, a_scales, b_scales}, source);
  }

  // The instruction takes kBlocks bytes of a register, starting at a multiple of as many bytes.
  static constexpr bool takes(int byte_a, int byte_b, int thread_a, int thread_b) {
    return byte_a % kBlocks == 0 && byte_a < 4 && byte_b % kBlocks == 0 && byte_b < 4 && thread_a < 2 && thread_b < 4;
  }
};

}  // namespace detail

// The operands that every form's assembly has in common.
#define TILEWRIGHT_D "{%0, %1, %2, %3}"
#define TILEWRIGHT_ABD TILEWRIGHT_D ", {%4, %5, %6, %7}, {%8, %9}, " TILEWRIGHT_D
#define TILEWRIGHT_SUMS(constraint) constraint(d[0]), constraint(d[1]), constraint(d[2]), constraint(d[3])
#define TILEWRIGHT_WORDS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])

// BF16.
struct MmaBf16 : detail::Form<MmaBf16, Code<sm90::Bf16>, Code<sm90::Bf16>> {
  static __device__ __forceinline__ void mma(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 " TILEWRIGHT_ABD ";"
        : TILEWRIGHT_SUMS("+f")
        : TILEWRIGHT_WORDS);
  }
};

// F16.
struct MmaF16 : detail::Form<MmaF16, Code<sm90::F16>, Code<sm90::F16>> {
  static __device__ __forceinline__ void mma(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 " TILEWRIGHT_ABD ";"
        : TILEWRIGHT_SUMS("+f")
        : TILEWRIGHT_WORDS);
  }
};

// E4M3 or E5M2 each, without scale factors.
template <class A, class B>
struct MmaFp8 : detail::Form<MmaFp8<A, B>, Code<A>, Code<B>> {
  static __device__ __forceinline__ void mma(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2]) {
    asm("mma.sync.aligned.m16n8k32.row.col.f32%10%11.f32 " TILEWRIGHT_ABD ";"
        : TILEWRIGHT_SUMS("+f")
        : TILEWRIGHT_WORDS, "C"(A::kName), "C"(B::kName));
  }
};

// INT8, with sums in S32 that wrap around.
struct MmaInt8 : detail::Form<MmaInt8, Code<S8>, Code<S8>, int32_t, int64_t> {
  static __device__ __forceinline__ void mma(int32_t (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2]) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 " TILEWRIGHT_ABD ";"
        : TILEWRIGHT_SUMS("+r")
        : TILEWRIGHT_WORDS);
  }
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1200
#define TILEWRIGHT_SCALED_MMA(text, ...)                                                         \
  asm(text " " TILEWRIGHT_ABD ", {%10}, {%12, %13}, {%11}, {%14, %15};"                          \
      : TILEWRIGHT_SUMS("+f")                                                                    \
      : TILEWRIGHT_WORDS, "r"(a_scales), "r"(b_scales), "n"(kByteA), "n"(kThreadA), "n"(kByteB), \
        "n"(kThreadB)__VA_ARGS__)
#else
#define TILEWRIGHT_SCALED_MMA(...) Base::software(d, a, b, a_scales, b_scales, {kByteA, kByteB, kThreadA, kThreadB})
#endif

// E4M3, E5M2 or E2M1 each, a byte an element, with a UE8M0 factor for 32 of k (scale_vec::1X).
template <class A, class B>
struct MmaMxf8 : detail::ScaledForm<MmaMxf8<A, B>, ByteCode<A>, ByteCode<B>, Code<Ue8m0>, 1> {
  using Base = detail::ScaledForm<MmaMxf8<A, B>, ByteCode<A>, ByteCode<B>, Code<Ue8m0>, 1>;

  template <int kByteA = 0, int kByteB = 0, int kThreadA = 0, int kThreadB = 0>
  static __device__ __forceinline__ void mma(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2],
                                             uint32_t a_scales, uint32_t b_scales) {
    static_assert(Base::takes(kByteA, kByteB, kThreadA, kThreadB));
    TILEWRIGHT_SCALED_MMA(
        "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32%16%17.f32.ue8m0", ,
        "C"(A::kName), "C"(B::kName));
  }
};

// E2M1 with a UE8M0 factor for 32 of k (MXFP4). kind::mxf4 is the same machine instruction.
struct MmaMxf4 : detail::ScaledForm<MmaMxf4, Code<E2m1>, Code<E2m1>, Code<Ue8m0>, 2> {
  using Base = detail::ScaledForm<MmaMxf4, Code<E2m1>, Code<E2m1>, Code<Ue8m0>, 2>;

  template <int kByteA = 0, int kByteB = 0, int kThreadA = 0, int kThreadB = 0>
  static __device__ __forceinline__ void mma(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2],
                                             uint32_t a_scales, uint32_t b_scales) {
    static_assert(Base::takes(kByteA, kByteB, kThreadA, kThreadB));
    TILEWRIGHT_SCALED_MMA(
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0");
  }
};

// E2M1 with a UE4M3 factor for 16 of k (NVFP4).
struct MmaNvf4 : detail::ScaledForm<MmaNvf4, Code<E2m1>, Code<E2m1>, Code<Ue4m3>, 4> {
  using Base = detail::ScaledForm<MmaNvf4, Code<E2m1>, Code<E2m1>, Code<Ue4m3>, 4>;

  template <int kByteA = 0, int kByteB = 0, int kThreadA = 0, int kThreadB = 0>
  static __device__ __forceinline__ void mma(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2],
                                             uint32_t a_scales, uint32_t b_scales) {
    static_assert(Base::takes(kByteA, kByteB, kThreadA, kThreadB));
    TILEWRIGHT_SCALED_MMA(
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3");
  }
};

#undef TILEWRIGHT_SCALED_MMA
#undef TILEWRIGHT_WORDS
#undef TILEWRIGHT_SUMS
#undef TILEWRIGHT_ABD
#undef TILEWRIGHT_D

}  // namespace tilewright::sm120
