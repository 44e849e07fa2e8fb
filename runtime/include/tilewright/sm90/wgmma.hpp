// wgmma, the tensor cores' instruction of sm_90a: descriptors of operands in shared memory, waits, and the form with
// both operands in shared memory, D[64, N] += A[64, k] B[N, k]^T with 32 bytes of k. Operands of 16 bits lie K-major or
// MN-major, others K-major. wgmma_registers.hpp and wgmma_tf32.hpp have the forms with A in registers.
#pragma once

#include <cstdint>

#include "tilewright/sm90/elements.hpp"

namespace tilewright::sm90 {

// The shared-memory descriptor of K-major rows of 128, 64 or 32 bytes with the swizzle of the same width (PTX ISA,
// "Matrix descriptor"). `address` is aligned to 8 rows, plus steps of 32 bytes along k.
template <int RowBytes = 128>
__device__ __forceinline__ uint64_t swizzled_descriptor(uint32_t address) {
  static_assert(RowBytes == 128 || RowBytes == 64 || RowBytes == 32);
  constexpr uint64_t kSwizzle = uint64_t{RowBytes == 128 ? 1 : RowBytes == 64 ? 2 : 3} << 62;
  constexpr uint64_t kEightRows = uint64_t{RowBytes * 8 >> 4} << 32;  // bytes from 8 rows to the next 8
  constexpr uint64_t kLeading = uint64_t{1} << 16;                    // without meaning under these swizzles
  return kSwizzle | kEightRows | kLeading | ((address & 0x3FFFF) >> 4);
}

// The descriptor that lies `units` units of 16 bytes behind another one. Adding to the low word is enough, because
// shared-memory addresses never carry into the other fields.
__device__ __forceinline__ uint64_t behind(uint64_t descriptor, int units) {
  return (descriptor & 0xFFFFFFFF00000000) | (static_cast<uint32_t>(descriptor) + units);
}

// The descriptor of an MN-major operand of 16 bits: boxes of 64 of its rows (128 bytes) by 64 of k, one behind the
// other. `address`: where a box begins, plus any number of steps of 8 of k.
__device__ __forceinline__ uint64_t swizzled_descriptor_mn(uint32_t address) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kEightOfK = uint64_t{1024 >> 4} << 32;  // bytes from 8 of k to the next 8
  constexpr uint64_t kNextBox = uint64_t{8192 >> 4} << 16;
  return kSwizzle128 | kEightOfK | kNextBox | ((address & 0x3FFFF) >> 4);
}

// wgmma_fence: orders accesses to registers before the wgmmas that follow. wgmma_commit: makes a group of the wgmmas
// since the last group. Both are called by whole warpgroups.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most `Pending` of the warpgroup's latest groups of wgmmas are still in flight.
template <int Pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// Keeps the compiler from moving accesses to these registers across this statement. An asynchronous wgmma reads or
// writes them without the compiler's knowledge.
template <int Count>
__device__ __forceinline__ void hold(float (&registers)[Count]) {
#pragma unroll
  for (float& value : registers) {
    asm volatile("" : "+f"(value)::"memory");
  }
}

template <int Count>
__device__ __forceinline__ void hold(uint32_t (&registers)[Count]) {
#pragma unroll
  for (uint32_t& value : registers) {
    asm volatile("" : "+r"(value)::"memory");
  }
}

namespace detail {

// The parts of the instruction's name and operands that depend on types: elements of k, and flags for transposed
// (MN-major) operands of 16 bits. Operands of 8 bits are always K-major, and have no flags.
template <int kBytes, bool kMnA, bool kMnB>
struct Shape {
  static constexpr char kDepth[] = "k16", kEnd[] = {',', ' ', kMnA ? '1' : '0', ',', ' ', kMnB ? '1' : '0', 0};
};
template <>
struct Shape<1, false, false> {
  static constexpr char kDepth[] = "k32", kEnd[] = "";
};

template <class A, class B, int N, bool kMnA, bool kMnB>
struct WgmmaShared;

// Accumulators, four (8 columns) at a time, as operands of the assembly and as its text.
#define TILEWRIGHT_D4(i) "+f"(d[4 * i]), "+f"(d[4 * i + 1]), "+f"(d[4 * i + 2]), "+f"(d[4 * i + 3])
#define TILEWRIGHT_D_8 TILEWRIGHT_D4(0)
#define TILEWRIGHT_D_16 TILEWRIGHT_D_8, TILEWRIGHT_D4(1)
#define TILEWRIGHT_D_24 TILEWRIGHT_D_16, TILEWRIGHT_D4(2)
#define TILEWRIGHT_D_32 TILEWRIGHT_D_24, TILEWRIGHT_D4(3)
#define TILEWRIGHT_D_40 TILEWRIGHT_D_32, TILEWRIGHT_D4(4)
#define TILEWRIGHT_D_48 TILEWRIGHT_D_40, TILEWRIGHT_D4(5)
#define TILEWRIGHT_D_56 TILEWRIGHT_D_48, TILEWRIGHT_D4(6)
#define TILEWRIGHT_D_64 TILEWRIGHT_D_56, TILEWRIGHT_D4(7)
#define TILEWRIGHT_D_72 TILEWRIGHT_D_64, TILEWRIGHT_D4(8)
#define TILEWRIGHT_D_80 TILEWRIGHT_D_72, TILEWRIGHT_D4(9)
#define TILEWRIGHT_D_88 TILEWRIGHT_D_80, TILEWRIGHT_D4(10)
#define TILEWRIGHT_D_96 TILEWRIGHT_D_88, TILEWRIGHT_D4(11)
#define TILEWRIGHT_D_104 TILEWRIGHT_D_96, TILEWRIGHT_D4(12)
#define TILEWRIGHT_D_112 TILEWRIGHT_D_104, TILEWRIGHT_D4(13)
#define TILEWRIGHT_D_120 TILEWRIGHT_D_112, TILEWRIGHT_D4(14)
#define TILEWRIGHT_D_128 TILEWRIGHT_D_120, TILEWRIGHT_D4(15)
#define TILEWRIGHT_D_136 TILEWRIGHT_D_128, TILEWRIGHT_D4(16)
#define TILEWRIGHT_D_144 TILEWRIGHT_D_136, TILEWRIGHT_D4(17)
#define TILEWRIGHT_D_152 TILEWRIGHT_D_144, TILEWRIGHT_D4(18)
#define TILEWRIGHT_D_160 TILEWRIGHT_D_152, TILEWRIGHT_D4(19)
#define TILEWRIGHT_D_168 TILEWRIGHT_D_160, TILEWRIGHT_D4(20)
#define TILEWRIGHT_D_176 TILEWRIGHT_D_168, TILEWRIGHT_D4(21)
#define TILEWRIGHT_D_184 TILEWRIGHT_D_176, TILEWRIGHT_D4(22)
#define TILEWRIGHT_D_192 TILEWRIGHT_D_184, TILEWRIGHT_D4(23)
#define TILEWRIGHT_D_200 TILEWRIGHT_D_192, TILEWRIGHT_D4(24)
#define TILEWRIGHT_D_208 TILEWRIGHT_D_200, TILEWRIGHT_D4(25)
#define TILEWRIGHT_D_216 TILEWRIGHT_D_208, TILEWRIGHT_D4(26)
#define TILEWRIGHT_D_224 TILEWRIGHT_D_216, TILEWRIGHT_D4(27)
#define TILEWRIGHT_D_232 TILEWRIGHT_D_224, TILEWRIGHT_D4(28)
#define TILEWRIGHT_D_240 TILEWRIGHT_D_232, TILEWRIGHT_D4(29)
#define TILEWRIGHT_D_248 TILEWRIGHT_D_240, TILEWRIGHT_D4(30)
#define TILEWRIGHT_D_256 TILEWRIGHT_D_248, TILEWRIGHT_D4(31)
#define TILEWRIGHT_TEXT_8 "%0, %1, %2, %3"
#define TILEWRIGHT_TEXT_16 TILEWRIGHT_TEXT_8 ", %4, %5, %6, %7"
#define TILEWRIGHT_TEXT_24 TILEWRIGHT_TEXT_16 ", %8, %9, %10, %11"
#define TILEWRIGHT_TEXT_32 TILEWRIGHT_TEXT_24 ", %12, %13, %14, %15"
#define TILEWRIGHT_TEXT_40 TILEWRIGHT_TEXT_32 ", %16, %17, %18, %19"
#define TILEWRIGHT_TEXT_48 TILEWRIGHT_TEXT_40 ", %20, %21, %22, %23"
#define TILEWRIGHT_TEXT_56 TILEWRIGHT_TEXT_48 ", %24, %25, %26, %27"
#define TILEWRIGHT_TEXT_64 TILEWRIGHT_TEXT_56 ", %28, %29, %30, %31"
#define TILEWRIGHT_TEXT_72 TILEWRIGHT_TEXT_64 ", %32, %33, %34, %35"
#define TILEWRIGHT_TEXT_80 TILEWRIGHT_TEXT_72 ", %36, %37, %38, %39"
#define TILEWRIGHT_TEXT_88 TILEWRIGHT_TEXT_80 ", %40, %41, %42, %43"
#define TILEWRIGHT_TEXT_96 TILEWRIGHT_TEXT_88 ", %44, %45, %46, %47"
#define TILEWRIGHT_TEXT_104 TILEWRIGHT_TEXT_96 ", %48, %49, %50, %51"
#define TILEWRIGHT_TEXT_112 TILEWRIGHT_TEXT_104 ", %52, %53, %54, %55"
#define TILEWRIGHT_TEXT_120 TILEWRIGHT_TEXT_112 ", %56, %57, %58, %59"
#define TILEWRIGHT_TEXT_128 TILEWRIGHT_TEXT_120 ", %60, %61, %62, %63"
#define TILEWRIGHT_TEXT_136 TILEWRIGHT_TEXT_128 ", %64, %65, %66, %67"
#define TILEWRIGHT_TEXT_144 TILEWRIGHT_TEXT_136 ", %68, %69, %70, %71"
#define TILEWRIGHT_TEXT_152 TILEWRIGHT_TEXT_144 ", %72, %73, %74, %75"
#define TILEWRIGHT_TEXT_160 TILEWRIGHT_TEXT_152 ", %76, %77, %78, %79"
#define TILEWRIGHT_TEXT_168 TILEWRIGHT_TEXT_160 ", %80, %81, %82, %83"
#define TILEWRIGHT_TEXT_176 TILEWRIGHT_TEXT_168 ", %84, %85, %86, %87"
#define TILEWRIGHT_TEXT_184 TILEWRIGHT_TEXT_176 ", %88, %89, %90, %91"
#define TILEWRIGHT_TEXT_192 TILEWRIGHT_TEXT_184 ", %92, %93, %94, %95"
#define TILEWRIGHT_TEXT_200 TILEWRIGHT_TEXT_192 ", %96, %97, %98, %99"
#define TILEWRIGHT_TEXT_208 TILEWRIGHT_TEXT_200 ", %100, %101, %102, %103"
#define TILEWRIGHT_TEXT_216 TILEWRIGHT_TEXT_208 ", %104, %105, %106, %107"
#define TILEWRIGHT_TEXT_224 TILEWRIGHT_TEXT_216 ", %108, %109, %110, %111"
#define TILEWRIGHT_TEXT_232 TILEWRIGHT_TEXT_224 ", %112, %113, %114, %115"
#define TILEWRIGHT_TEXT_240 TILEWRIGHT_TEXT_232 ", %116, %117, %118, %119"
#define TILEWRIGHT_TEXT_248 TILEWRIGHT_TEXT_240 ", %120, %121, %122, %123"
#define TILEWRIGHT_TEXT_256 TILEWRIGHT_TEXT_248 ", %124, %125, %126, %127"

// The arguments after N are the numbers of the assembly's operands, which follow the N/2 accumulators.
#define TILEWRIGHT_WGMMA(N, X, Y, SUM, DEPTH, TYPE_A, TYPE_B, END)                                                    \
  template <class A, class B, bool kMnA, bool kMnB>                                                                   \
  struct WgmmaShared<A, B, N, kMnA, kMnB> {                                                                           \
    using Form = Shape<A::kBytes, kMnA, kMnB>;                                                                        \
    static __device__ __forceinline__ void run(float (&d)[N / 2], uint64_t a, uint64_t b, int sum) {                  \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #SUM ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "%" #DEPTH  \
                   ".f32%" #TYPE_A "%" #TYPE_B " {" TILEWRIGHT_TEXT_##N "}, %" #X ", %" #Y ", p, 1, 1%" #END ";\n}\n" \
                   : TILEWRIGHT_D_##N                                                                                 \
                   : "l"(a), "l"(b), "r"(sum), "C"(Form::kDepth), "C"(A::kName), "C"(B::kName), "C"(Form::kEnd));     \
    }                                                                                                                 \
  };

TILEWRIGHT_WGMMA(8, 4, 5, 6, 7, 8, 9, 10)
TILEWRIGHT_WGMMA(16, 8, 9, 10, 11, 12, 13, 14)
TILEWRIGHT_WGMMA(24, 12, 13, 14, 15, 16, 17, 18)
TILEWRIGHT_WGMMA(32, 16, 17, 18, 19, 20, 21, 22)
TILEWRIGHT_WGMMA(40, 20, 21, 22, 23, 24, 25, 26)
TILEWRIGHT_WGMMA(48, 24, 25, 26, 27, 28, 29, 30)
TILEWRIGHT_WGMMA(56, 28, 29, 30, 31, 32, 33, 34)
TILEWRIGHT_WGMMA(64, 32, 33, 34, 35, 36, 37, 38)
TILEWRIGHT_WGMMA(72, 36, 37, 38, 39, 40, 41, 42)
TILEWRIGHT_WGMMA(80, 40, 41, 42, 43, 44, 45, 46)
TILEWRIGHT_WGMMA(88, 44, 45, 46, 47, 48, 49, 50)
TILEWRIGHT_WGMMA(96, 48, 49, 50, 51, 52, 53, 54)
TILEWRIGHT_WGMMA(104, 52, 53, 54, 55, 56, 57, 58)
TILEWRIGHT_WGMMA(112, 56, 57, 58, 59, 60, 61, 62)
TILEWRIGHT_WGMMA(120, 60, 61, 62, 63, 64, 65, 66)
TILEWRIGHT_WGMMA(128, 64, 65, 66, 67, 68, 69, 70)
TILEWRIGHT_WGMMA(136, 68, 69, 70, 71, 72, 73, 74)
TILEWRIGHT_WGMMA(144, 72, 73, 74, 75, 76, 77, 78)
TILEWRIGHT_WGMMA(152, 76, 77, 78, 79, 80, 81, 82)
TILEWRIGHT_WGMMA(160, 80, 81, 82, 83, 84, 85, 86)
TILEWRIGHT_WGMMA(168, 84, 85, 86, 87, 88, 89, 90)
TILEWRIGHT_WGMMA(176, 88, 89, 90, 91, 92, 93, 94)
TILEWRIGHT_WGMMA(184, 92, 93, 94, 95, 96, 97, 98)
TILEWRIGHT_WGMMA(192, 96, 97, 98, 99, 100, 101, 102)
TILEWRIGHT_WGMMA(200, 100, 101, 102, 103, 104, 105, 106)
TILEWRIGHT_WGMMA(208, 104, 105, 106, 107, 108, 109, 110)
TILEWRIGHT_WGMMA(216, 108, 109, 110, 111, 112, 113, 114)
TILEWRIGHT_WGMMA(224, 112, 113, 114, 115, 116, 117, 118)
TILEWRIGHT_WGMMA(232, 116, 117, 118, 119, 120, 121, 122)
TILEWRIGHT_WGMMA(240, 120, 121, 122, 123, 124, 125, 126)
TILEWRIGHT_WGMMA(248, 124, 125, 126, 127, 128, 129, 130)
TILEWRIGHT_WGMMA(256, 128, 129, 130, 131, 132, 133, 134)

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
#undef TILEWRIGHT_D_40
#undef TILEWRIGHT_TEXT_40
#undef TILEWRIGHT_D_48
#undef TILEWRIGHT_TEXT_48
#undef TILEWRIGHT_D_56
#undef TILEWRIGHT_TEXT_56
#undef TILEWRIGHT_D_64
#undef TILEWRIGHT_TEXT_64
#undef TILEWRIGHT_D_72
#undef TILEWRIGHT_TEXT_72
#undef TILEWRIGHT_D_80
#undef TILEWRIGHT_TEXT_80
#undef TILEWRIGHT_D_88
#undef TILEWRIGHT_TEXT_88
#undef TILEWRIGHT_D_96
#undef TILEWRIGHT_TEXT_96
#undef TILEWRIGHT_D_104
#undef TILEWRIGHT_TEXT_104
#undef TILEWRIGHT_D_112
#undef TILEWRIGHT_TEXT_112
#undef TILEWRIGHT_D_120
#undef TILEWRIGHT_TEXT_120
#undef TILEWRIGHT_D_128
#undef TILEWRIGHT_TEXT_128
#undef TILEWRIGHT_D_136
#undef TILEWRIGHT_TEXT_136
#undef TILEWRIGHT_D_144
#undef TILEWRIGHT_TEXT_144
#undef TILEWRIGHT_D_152
#undef TILEWRIGHT_TEXT_152
#undef TILEWRIGHT_D_160
#undef TILEWRIGHT_TEXT_160
#undef TILEWRIGHT_D_168
#undef TILEWRIGHT_TEXT_168
#undef TILEWRIGHT_D_176
#undef TILEWRIGHT_TEXT_176
#undef TILEWRIGHT_D_184
#undef TILEWRIGHT_TEXT_184
#undef TILEWRIGHT_D_192
#undef TILEWRIGHT_TEXT_192
#undef TILEWRIGHT_D_200
#undef TILEWRIGHT_TEXT_200
#undef TILEWRIGHT_D_208
#undef TILEWRIGHT_TEXT_208
#undef TILEWRIGHT_D_216
#undef TILEWRIGHT_TEXT_216
#undef TILEWRIGHT_D_224
#undef TILEWRIGHT_TEXT_224
#undef TILEWRIGHT_D_232
#undef TILEWRIGHT_TEXT_232
#undef TILEWRIGHT_D_240
#undef TILEWRIGHT_TEXT_240
#undef TILEWRIGHT_D_248
#undef TILEWRIGHT_TEXT_248
#undef TILEWRIGHT_D_256
#undef TILEWRIGHT_TEXT_256

}  // namespace detail

// Issues D = A B^T, or D += A B^T with `sum`. `a` and `b` describe 64 and N rows of shared memory. Thread t of quad g
// (four threads) of warp w holds row 16w+g, columns 8j+2t and 8j+2t+1 of D in d[4j] and d[4j+1], and the same columns
// of row 16w+g+8 in d[4j+2] and d[4j+3].
template <class A, class B, int N, bool kMnA = false, bool kMnB = false>
__device__ __forceinline__ void wgmma(float (&d)[N / 2], uint64_t a, uint64_t b, bool sum) {
  detail::WgmmaShared<A, B, N, kMnA, kMnB>::run(d, a, b, sum);
}

}  // namespace tilewright::sm90
