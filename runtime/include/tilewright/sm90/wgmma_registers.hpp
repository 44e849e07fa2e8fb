// wgmma with operand A in registers and operand B in shared memory: D[64, N] += A[64, 16] B[N, 16]^T.
#pragma once

#include <cstdint>

#include "tilewright/sm90/elements.hpp"

namespace tilewright::sm90 {

// Thread t of quad g (lane 4 g + t) of a warp holds these elements of the warp's 16 rows:
//
// | register | row | k, or column |
// |---|---|---|
// | a[0] | g | k = 2t, 2t+1 |
// | a[1] | g+8 | k = 2t, 2t+1 |
// | a[2] | g | k = 2t+8, 2t+9 |
// | a[3] | g+8 | k = 2t+8, 2t+9 |
// | d[4j], d[4j+1] | g | columns 8j+2t, 8j+2t+1 |
// | d[4j+2], d[4j+3] | g+8 | columns 8j+2t, 8j+2t+1 |
//
// If `sum` is 0, D is overwritten instead of added to.
template <class Type, int N>
struct WgmmaRegisters;

// Eight accumulators as operands of the assembly.
#define TILEWRIGHT_D8(i)                                                                                      \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])

// `TEXT` lists the N/2 accumulators; A0 to A3 and B are the operands that follow them.
#define TILEWRIGHT_WGMMA(TYPE, PTX_TYPE, N, TEXT, A0, A1, A2, A3, B, SUM, ...)                                    \
  template <>                                                                                                     \
  struct WgmmaRegisters<TYPE, N> {                                                                                \
    static __device__ __forceinline__ void run(float (&d)[N / 2], uint32_t const* a, uint64_t b, int sum = 1) {   \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #SUM ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N         \
                   "k16.f32." PTX_TYPE "." PTX_TYPE " {" TEXT "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B \
                   ", p, 1, 1, 0;\n}\n"                                                                           \
                   : __VA_ARGS__                                                                                  \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(sum));                               \
    }                                                                                                             \
  };

#define TILEWRIGHT_TEXT_8 "%0, %1, %2, %3"
#define TILEWRIGHT_TEXT_16 TILEWRIGHT_TEXT_8 ", %4, %5, %6, %7"
#define TILEWRIGHT_TEXT_32 TILEWRIGHT_TEXT_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TILEWRIGHT_TEXT_64 \
  TILEWRIGHT_TEXT_32 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TILEWRIGHT_TEXT_128                                                          \
  TILEWRIGHT_TEXT_64                                                                 \
  ", "                                                                               \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

TILEWRIGHT_WGMMA(F16, "f16", 8, TILEWRIGHT_TEXT_8, 4, 5, 6, 7, 8, 9, "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]))
TILEWRIGHT_WGMMA(F16, "f16", 16, TILEWRIGHT_TEXT_16, 8, 9, 10, 11, 12, 13, TILEWRIGHT_D8(0))
TILEWRIGHT_WGMMA(F16, "f16", 32, TILEWRIGHT_TEXT_32, 16, 17, 18, 19, 20, 21, TILEWRIGHT_D8(0), TILEWRIGHT_D8(8))
TILEWRIGHT_WGMMA(F16, "f16", 64, TILEWRIGHT_TEXT_64, 32, 33, 34, 35, 36, 37, TILEWRIGHT_D8(0), TILEWRIGHT_D8(8),
                 TILEWRIGHT_D8(16), TILEWRIGHT_D8(24))
TILEWRIGHT_WGMMA(F16, "f16", 128, TILEWRIGHT_TEXT_128, 64, 65, 66, 67, 68, 69, TILEWRIGHT_D8(0), TILEWRIGHT_D8(8),
                 TILEWRIGHT_D8(16), TILEWRIGHT_D8(24), TILEWRIGHT_D8(32), TILEWRIGHT_D8(40), TILEWRIGHT_D8(48),
                 TILEWRIGHT_D8(56))
TILEWRIGHT_WGMMA(Bf16, "bf16", 8, TILEWRIGHT_TEXT_8, 4, 5, 6, 7, 8, 9, "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]))
TILEWRIGHT_WGMMA(Bf16, "bf16", 16, TILEWRIGHT_TEXT_16, 8, 9, 10, 11, 12, 13, TILEWRIGHT_D8(0))
TILEWRIGHT_WGMMA(Bf16, "bf16", 32, TILEWRIGHT_TEXT_32, 16, 17, 18, 19, 20, 21, TILEWRIGHT_D8(0), TILEWRIGHT_D8(8))
TILEWRIGHT_WGMMA(Bf16, "bf16", 64, TILEWRIGHT_TEXT_64, 32, 33, 34, 35, 36, 37, TILEWRIGHT_D8(0), TILEWRIGHT_D8(8),
                 TILEWRIGHT_D8(16), TILEWRIGHT_D8(24))
TILEWRIGHT_WGMMA(Bf16, "bf16", 128, TILEWRIGHT_TEXT_128, 64, 65, 66, 67, 68, 69, TILEWRIGHT_D8(0), TILEWRIGHT_D8(8),
                 TILEWRIGHT_D8(16), TILEWRIGHT_D8(24), TILEWRIGHT_D8(32), TILEWRIGHT_D8(40), TILEWRIGHT_D8(48),
                 TILEWRIGHT_D8(56))

#undef TILEWRIGHT_WGMMA
#undef TILEWRIGHT_D8
#undef TILEWRIGHT_TEXT_8
#undef TILEWRIGHT_TEXT_16
#undef TILEWRIGHT_TEXT_32
#undef TILEWRIGHT_TEXT_64
#undef TILEWRIGHT_TEXT_128

}  // namespace tilewright::sm90
