// wgmma on TF32 with operand A in registers and operand B in shared memory: D[64, N] += A[64, 8] B[N, 8]^T.
#pragma once

#include <cstdint>

#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::sm90 {

namespace detail {

template <int N>
struct WgmmaTf32;

#define TILEWRIGHT_D4(i) "+f"(d[4 * i]), "+f"(d[4 * i + 1]), "+f"(d[4 * i + 2]), "+f"(d[4 * i + 3])
#define TILEWRIGHT_D_8 TILEWRIGHT_D4(0)
#define TILEWRIGHT_D_16 TILEWRIGHT_D_8, TILEWRIGHT_D4(1)
#define TILEWRIGHT_D_24 TILEWRIGHT_D_16, TILEWRIGHT_D4(2)
#define TILEWRIGHT_D_32 TILEWRIGHT_D_24, TILEWRIGHT_D4(3)
#define TILEWRIGHT_D_48 TILEWRIGHT_D_32, TILEWRIGHT_D4(4), TILEWRIGHT_D4(5)
#define TILEWRIGHT_D_64 TILEWRIGHT_D_48, TILEWRIGHT_D4(6), TILEWRIGHT_D4(7)
#define TILEWRIGHT_D_96 TILEWRIGHT_D_64, TILEWRIGHT_D4(8), TILEWRIGHT_D4(9), TILEWRIGHT_D4(10), TILEWRIGHT_D4(11)
#define TILEWRIGHT_D_128 TILEWRIGHT_D_96, TILEWRIGHT_D4(12), TILEWRIGHT_D4(13), TILEWRIGHT_D4(14), TILEWRIGHT_D4(15)
#define TILEWRIGHT_TEXT_8 "%0, %1, %2, %3"
#define TILEWRIGHT_TEXT_16 TILEWRIGHT_TEXT_8 ", %4, %5, %6, %7"
#define TILEWRIGHT_TEXT_24 TILEWRIGHT_TEXT_16 ", %8, %9, %10, %11"
#define TILEWRIGHT_TEXT_32 TILEWRIGHT_TEXT_24 ", %12, %13, %14, %15"
#define TILEWRIGHT_TEXT_48 TILEWRIGHT_TEXT_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define TILEWRIGHT_TEXT_64 TILEWRIGHT_TEXT_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define TILEWRIGHT_TEXT_96 \
  TILEWRIGHT_TEXT_64 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define TILEWRIGHT_TEXT_128 \
  TILEWRIGHT_TEXT_96 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// A0 to A3 and B: the numbers of the assembly's operands that follow the N/2 accumulators.
#define TILEWRIGHT_WGMMA(N, A0, A1, A2, A3, B)                                                                  \
  template <>                                                                                                   \
  struct WgmmaTf32<N> {                                                                                         \
    static __device__ __forceinline__ void run(float (&d)[N / 2], uint32_t const (&a)[4], uint64_t b) {         \
      asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\nwgmma.mma_async.sync.aligned.m64n" #N               \
                   "k8.f32.tf32.tf32 {" TILEWRIGHT_TEXT_##N "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B \
                                                            ", p, 1, 1;\n}\n"                                   \
                   : TILEWRIGHT_D_##N                                                                           \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                       \
    }                                                                                                           \
  };

TILEWRIGHT_WGMMA(8, 4, 5, 6, 7, 8)
TILEWRIGHT_WGMMA(16, 8, 9, 10, 11, 12)
TILEWRIGHT_WGMMA(24, 12, 13, 14, 15, 16)
TILEWRIGHT_WGMMA(32, 16, 17, 18, 19, 20)
TILEWRIGHT_WGMMA(48, 24, 25, 26, 27, 28)
TILEWRIGHT_WGMMA(64, 32, 33, 34, 35, 36)
TILEWRIGHT_WGMMA(96, 48, 49, 50, 51, 52)
TILEWRIGHT_WGMMA(128, 64, 65, 66, 67, 68)

#undef TILEWRIGHT_WGMMA
#undef TILEWRIGHT_D4
#undef TILEWRIGHT_D_8
#undef TILEWRIGHT_TEXT_8
#undef TILEWRIGHT_D_16
#undef TILEWRIGHT_TEXT_16
#undef TILEWRIGHT_D_24
#undef TILEWRIGHT_TEXT_24
#undef TILEWRIGHT_D_32
#undef TILEWRIGHT_TEXT_32
#undef TILEWRIGHT_D_48
#undef TILEWRIGHT_TEXT_48
#undef TILEWRIGHT_D_64
#undef TILEWRIGHT_TEXT_64
#undef TILEWRIGHT_D_96
#undef TILEWRIGHT_TEXT_96
#undef TILEWRIGHT_D_128
#undef TILEWRIGHT_TEXT_128

}  // namespace detail

// Multiplies and adds. Thread t of quad g (lane 4 g + t) of a warp holds these F32 elements of the warp's 16 rows of A:
//
// | register | row | k |
// |---|---|---|
// | a[0] | g | t |
// | a[1] | g+8 | t |
// | a[2] | g | t+4 |
// | a[3] | g+8 | t+4 |
//
// The tensor core reads sign, exponent and the upper 10 bits of the mantissa of A and B. The layout of D is that of
// `wgmma`. `b` is the descriptor of N rows in shared memory.
template <int N>
__device__ __forceinline__ void wgmma_tf32(float (&d)[N / 2], uint32_t const (&a)[4], uint64_t b) {
  detail::WgmmaTf32<N>::run(d, a, b);
}

}  // namespace tilewright::sm90
