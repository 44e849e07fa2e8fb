// wgmma with operand A in registers for more widths than sm90/wgmma_registers.hpp has.
#pragma once

#include <cstdint>

#include "tilewright/sm90/elements.hpp"
#include "tilewright/sm90/wgmma_registers.hpp"

namespace tilewright::sm90 {

// Accumulators as operands of the assembly, and their places in its text: 8 or 16 at a time.
#define TILEWRIGHT_D8(i)                                                                                      \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define TILEWRIGHT_D16(i) TILEWRIGHT_D8(i), TILEWRIGHT_D8(i + 8)

#define TILEWRIGHT_TEXT_0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define TILEWRIGHT_FULL_0 TILEWRIGHT_TEXT_0 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TILEWRIGHT_TEXT_1 "%16, %17, %18, %19, %20, %21, %22, %23"
#define TILEWRIGHT_FULL_1 TILEWRIGHT_TEXT_1 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define TILEWRIGHT_TEXT_2 "%32, %33, %34, %35, %36, %37, %38, %39"
#define TILEWRIGHT_FULL_2 TILEWRIGHT_TEXT_2 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define TILEWRIGHT_TEXT_3 "%48, %49, %50, %51, %52, %53, %54, %55"
#define TILEWRIGHT_FULL_3 TILEWRIGHT_TEXT_3 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define TILEWRIGHT_TEXT_4 "%64, %65, %66, %67, %68, %69, %70, %71"
#define TILEWRIGHT_FULL_4 TILEWRIGHT_TEXT_4 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define TILEWRIGHT_TEXT_5 "%80, %81, %82, %83, %84, %85, %86, %87"
#define TILEWRIGHT_FULL_5 TILEWRIGHT_TEXT_5 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define TILEWRIGHT_TEXT_6 "%96, %97, %98, %99, %100, %101, %102, %103"
#define TILEWRIGHT_FULL_6 TILEWRIGHT_TEXT_6 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define TILEWRIGHT_TEXT_7 "%112, %113, %114, %115, %116, %117, %118, %119"
#define TILEWRIGHT_FULL_7 TILEWRIGHT_TEXT_7 ", %120, %121, %122, %123, %124, %125, %126, %127"

// `TEXT` lists the N/2 accumulators; A0 to SUM are the operands that follow them.
#define TILEWRIGHT_WGMMA(N, TEXT, A0, A1, A2, A3, B, SUM, TYPE, ...)                                        \
  template <class Type>                                                                                     \
  struct WideWgmma<Type, N> {                                                                               \
    static __device__ __forceinline__ void run(float (&d)[N / 2], uint32_t const* a, uint64_t b, int sum) { \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #SUM ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N   \
                   "k16.f32%" #TYPE "%" #TYPE " {" TEXT "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B \
                   ", p, 1, 1, 0;\n}\n"                                                                     \
                   : __VA_ARGS__                                                                            \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(sum), "C"(Type::kName));       \
    }                                                                                                       \
  };

// WgmmaRegisters for any width that a kernel of `mixed_gemm` has.
template <class Type, int N>
struct WideWgmma : WgmmaRegisters<Type, N> {};

TILEWRIGHT_WGMMA(24, TILEWRIGHT_TEXT_0 ", %8, %9, %10, %11", 12, 13, 14, 15, 16, 17, 18, TILEWRIGHT_D8(0), "+f"(d[8]),
                 "+f"(d[9]), "+f"(d[10]), "+f"(d[11]))
TILEWRIGHT_WGMMA(48, TILEWRIGHT_FULL_0 ", " TILEWRIGHT_TEXT_1, 24, 25, 26, 27, 28, 29, 30, TILEWRIGHT_D16(0),
                 TILEWRIGHT_D8(16))
TILEWRIGHT_WGMMA(80, TILEWRIGHT_FULL_0 ", " TILEWRIGHT_FULL_1 ", " TILEWRIGHT_TEXT_2, 40, 41, 42, 43, 44, 45, 46,
                 TILEWRIGHT_D16(0), TILEWRIGHT_D16(16), TILEWRIGHT_D8(32))
TILEWRIGHT_WGMMA(96, TILEWRIGHT_FULL_0 ", " TILEWRIGHT_FULL_1 ", " TILEWRIGHT_FULL_2, 48, 49, 50, 51, 52, 53, 54,
                 TILEWRIGHT_D16(0), TILEWRIGHT_D16(16), TILEWRIGHT_D16(32))
TILEWRIGHT_WGMMA(112, TILEWRIGHT_FULL_0 ", " TILEWRIGHT_FULL_1 ", " TILEWRIGHT_FULL_2 ", " TILEWRIGHT_TEXT_3, 56, 57,
                 58, 59, 60, 61, 62, TILEWRIGHT_D16(0), TILEWRIGHT_D16(16), TILEWRIGHT_D16(32), TILEWRIGHT_D8(48))
TILEWRIGHT_WGMMA(144,
                 TILEWRIGHT_FULL_0 ", " TILEWRIGHT_FULL_1 ", " TILEWRIGHT_FULL_2 ", " TILEWRIGHT_FULL_3
                                   ", " TILEWRIGHT_TEXT_4,
                 72, 73, 74, 75, 76, 77, 78, TILEWRIGHT_D16(0), TILEWRIGHT_D16(16), TILEWRIGHT_D16(32),
                 TILEWRIGHT_D16(48), TILEWRIGHT_D8(64))
TILEWRIGHT_WGMMA(160,
                 TILEWRIGHT_FULL_0 ", " TILEWRIGHT_FULL_1 ", " TILEWRIGHT_FULL_2 ", " TILEWRIGHT_FULL_3
                                   ", " TILEWRIGHT_FULL_4,
                 80, 81, 82, 83, 84, 85, 86, TILEWRIGHT_D16(0), TILEWRIGHT_D16(16), TILEWRIGHT_D16(32),
                 TILEWRIGHT_D16(48), TILEWRIGHT_D16(64))
TILEWRIGHT_WGMMA(176,
                 TILEWRIGHT_FULL_0 ", " TILEWRIGHT_FULL_1 ", " TILEWRIGHT_FULL_2 ", " TILEWRIGHT_FULL_3
                                   ", " TILEWRIGHT_FULL_4 ", " TILEWRIGHT_TEXT_5,
                 88, 89, 90, 91, 92, 93, 94, TILEWRIGHT_D16(0), TILEWRIGHT_D16(16), TILEWRIGHT_D16(32),
                 TILEWRIGHT_D16(48), TILEWRIGHT_D16(64), TILEWRIGHT_D8(80))
TILEWRIGHT_WGMMA(192,
                 TILEWRIGHT_FULL_0 ", " TILEWRIGHT_FULL_1 ", " TILEWRIGHT_FULL_2 ", " TILEWRIGHT_FULL_3
                                   ", " TILEWRIGHT_FULL_4 ", " TILEWRIGHT_FULL_5,
                 96, 97, 98, 99, 100, 101, 102, TILEWRIGHT_D16(0), TILEWRIGHT_D16(16), TILEWRIGHT_D16(32),
                 TILEWRIGHT_D16(48), TILEWRIGHT_D16(64), TILEWRIGHT_D16(80))
TILEWRIGHT_WGMMA(208,
                 TILEWRIGHT_FULL_0 ", " TILEWRIGHT_FULL_1 ", " TILEWRIGHT_FULL_2 ", " TILEWRIGHT_FULL_3
                                   ", " TILEWRIGHT_FULL_4 ", " TILEWRIGHT_FULL_5 ", " TILEWRIGHT_TEXT_6,
                 104, 105, 106, 107, 108, 109, 110, TILEWRIGHT_D16(0), TILEWRIGHT_D16(16), TILEWRIGHT_D16(32),
                 TILEWRIGHT_D16(48), TILEWRIGHT_D16(64), TILEWRIGHT_D16(80), TILEWRIGHT_D8(96))
TILEWRIGHT_WGMMA(224,
                 TILEWRIGHT_FULL_0 ", " TILEWRIGHT_FULL_1 ", " TILEWRIGHT_FULL_2 ", " TILEWRIGHT_FULL_3
                                   ", " TILEWRIGHT_FULL_4 ", " TILEWRIGHT_FULL_5 ", " TILEWRIGHT_FULL_6,
                 112, 113, 114, 115, 116, 117, 118, TILEWRIGHT_D16(0), TILEWRIGHT_D16(16), TILEWRIGHT_D16(32),
                 TILEWRIGHT_D16(48), TILEWRIGHT_D16(64), TILEWRIGHT_D16(80), TILEWRIGHT_D16(96))
TILEWRIGHT_WGMMA(256,
                 TILEWRIGHT_FULL_0 ", " TILEWRIGHT_FULL_1 ", " TILEWRIGHT_FULL_2 ", " TILEWRIGHT_FULL_3
                                   ", " TILEWRIGHT_FULL_4 ", " TILEWRIGHT_FULL_5 ", " TILEWRIGHT_FULL_6
                                   ", " TILEWRIGHT_FULL_7,
                 128, 129, 130, 131, 132, 133, 134, TILEWRIGHT_D16(0), TILEWRIGHT_D16(16), TILEWRIGHT_D16(32),
                 TILEWRIGHT_D16(48), TILEWRIGHT_D16(64), TILEWRIGHT_D16(80), TILEWRIGHT_D16(96), TILEWRIGHT_D16(112))

#undef TILEWRIGHT_WGMMA
#undef TILEWRIGHT_D8
#undef TILEWRIGHT_D16
#undef TILEWRIGHT_TEXT_0
#undef TILEWRIGHT_FULL_0
#undef TILEWRIGHT_TEXT_1
#undef TILEWRIGHT_FULL_1
#undef TILEWRIGHT_TEXT_2
#undef TILEWRIGHT_FULL_2
#undef TILEWRIGHT_TEXT_3
#undef TILEWRIGHT_FULL_3
#undef TILEWRIGHT_TEXT_4
#undef TILEWRIGHT_FULL_4
#undef TILEWRIGHT_TEXT_5
#undef TILEWRIGHT_FULL_5
#undef TILEWRIGHT_TEXT_6
#undef TILEWRIGHT_FULL_6
#undef TILEWRIGHT_TEXT_7
#undef TILEWRIGHT_FULL_7

}  // namespace tilewright::sm90
