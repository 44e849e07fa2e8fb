// wgmma with operand A in registers for 40 columns: see wgmma.hpp.
#pragma once

#include <cstdint>

#include "tilewright/mixed_gemm/wgmma.hpp"

namespace tilewright::sm90 {

template <class Type>
struct WideWgmma<Type, 40> {
  static __device__ __forceinline__ void run(float (&d)[20], uint32_t const* a, uint64_t b, int sum) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %25, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n40k16.f32%26%26 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19}, "
        "{%20, %21, %22, %23}, %24, p, 1, 1, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
          "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(sum), "C"(Type::kName));
  }
};

}  // namespace tilewright::sm90
