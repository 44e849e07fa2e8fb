// FP8's wgmma with operand A in registers: D[64, N] += A[64, 32] B[N, 32]^T, where B is E4M3.
#pragma once

#include <cstdint>

#include "tilewright/sm90/elements.hpp"

namespace tilewright::sm90 {

// The fragments of a warp's 16 rows: thread t of quad g (four lanes) holds, of A, a[0] (row g, k = 4t to 4t+3), a[1]
// (row g+8, the same k), a[2] (row g, k = 4t+16 to 4t+19) and a[3] (row g+8, the same k as a[2]). Its accumulators are
// those of WgmmaRegisters (sm90/wgmma_registers.hpp). If `sum` is 0, D is overwritten instead of added to.
template <class A, int N>
struct WgmmaRegisters8;

// Eight accumulators as operands of the assembly.
#define TILEWRIGHT_D8(i)                                                                                      \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])

// `TEXT` lists the N/2 accumulators; A0 to SUM are the operands that follow them.
#define TILEWRIGHT_WGMMA(N, TEXT, A0, A1, A2, A3, B, SUM, TYPE, ...)                                        \
  template <class A>                                                                                        \
  struct WgmmaRegisters8<A, N> {                                                                            \
    static __device__ __forceinline__ void run(float (&d)[N / 2], uint32_t const* a, uint64_t b, int sum) { \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #SUM ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N   \
                   "k32.f32%" #TYPE ".e4m3 {" TEXT "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B      \
                   ", p, 1, 1;\n}\n"                                                                        \
                   : __VA_ARGS__                                                                            \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(sum), "C"(A::kName));          \
    }                                                                                                       \
  };

#define TILEWRIGHT_TEXT_8 "%0, %1, %2, %3"
#define TILEWRIGHT_TEXT_16 TILEWRIGHT_TEXT_8 ", %4, %5, %6, %7"
#define TILEWRIGHT_TEXT_32 TILEWRIGHT_TEXT_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TILEWRIGHT_TEXT_48 TILEWRIGHT_TEXT_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define TILEWRIGHT_TEXT_64 TILEWRIGHT_TEXT_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define TILEWRIGHT_TEXT_80 TILEWRIGHT_TEXT_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define TILEWRIGHT_TEXT_96 TILEWRIGHT_TEXT_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define TILEWRIGHT_TEXT_112 TILEWRIGHT_TEXT_96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define TILEWRIGHT_TEXT_128 TILEWRIGHT_TEXT_112 ", %56, %57, %58, %59, %60, %61, %62, %63"

TILEWRIGHT_WGMMA(8, TILEWRIGHT_TEXT_8, 4, 5, 6, 7, 8, 9, 10, "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]))
TILEWRIGHT_WGMMA(16, TILEWRIGHT_TEXT_16, 8, 9, 10, 11, 12, 13, 14, TILEWRIGHT_D8(0))
TILEWRIGHT_WGMMA(32, TILEWRIGHT_TEXT_32, 16, 17, 18, 19, 20, 21, 22, TILEWRIGHT_D8(0), TILEWRIGHT_D8(8))
TILEWRIGHT_WGMMA(48, TILEWRIGHT_TEXT_48, 24, 25, 26, 27, 28, 29, 30, TILEWRIGHT_D8(0), TILEWRIGHT_D8(8),
                 TILEWRIGHT_D8(16))
TILEWRIGHT_WGMMA(64, TILEWRIGHT_TEXT_64, 32, 33, 34, 35, 36, 37, 38, TILEWRIGHT_D8(0), TILEWRIGHT_D8(8),
                 TILEWRIGHT_D8(16), TILEWRIGHT_D8(24))
TILEWRIGHT_WGMMA(80, TILEWRIGHT_TEXT_80, 40, 41, 42, 43, 44, 45, 46, TILEWRIGHT_D8(0), TILEWRIGHT_D8(8),
                 TILEWRIGHT_D8(16), TILEWRIGHT_D8(24), TILEWRIGHT_D8(32))
TILEWRIGHT_WGMMA(96, TILEWRIGHT_TEXT_96, 48, 49, 50, 51, 52, 53, 54, TILEWRIGHT_D8(0), TILEWRIGHT_D8(8),
                 TILEWRIGHT_D8(16), TILEWRIGHT_D8(24), TILEWRIGHT_D8(32), TILEWRIGHT_D8(40))
TILEWRIGHT_WGMMA(112, TILEWRIGHT_TEXT_112, 56, 57, 58, 59, 60, 61, 62, TILEWRIGHT_D8(0), TILEWRIGHT_D8(8),
                 TILEWRIGHT_D8(16), TILEWRIGHT_D8(24), TILEWRIGHT_D8(32), TILEWRIGHT_D8(40), TILEWRIGHT_D8(48))
TILEWRIGHT_WGMMA(128, TILEWRIGHT_TEXT_128, 64, 65, 66, 67, 68, 69, 70, TILEWRIGHT_D8(0), TILEWRIGHT_D8(8),
                 TILEWRIGHT_D8(16), TILEWRIGHT_D8(24), TILEWRIGHT_D8(32), TILEWRIGHT_D8(40), TILEWRIGHT_D8(48),
                 TILEWRIGHT_D8(56))

#undef TILEWRIGHT_WGMMA
#undef TILEWRIGHT_D8
#undef TILEWRIGHT_TEXT_8
#undef TILEWRIGHT_TEXT_16
#undef TILEWRIGHT_TEXT_32
#undef TILEWRIGHT_TEXT_48
#undef TILEWRIGHT_TEXT_64
#undef TILEWRIGHT_TEXT_80
#undef TILEWRIGHT_TEXT_96
#undef TILEWRIGHT_TEXT_112
#undef TILEWRIGHT_TEXT_128

}  // namespace tilewright::sm90
