// The tensor core of sm_100 in PTX: descriptors of operands, and the instructions that a thread or a warp issues.
// Quoted titles are sections of the PTX ISA (9.0), "TensorCore 5th Generation Family Instructions".
//
// Tensor memory has 128 lanes of 512 columns of 32 bits. The product of 128 rows has a lane for each row and a column
// for each of the other operand's. A word of scale factors stands in lane row % 32, column row / 32 of what is
// reserved for its operand, in each quarter of the lanes ("Scale factor layouts").
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"

namespace tilewright::mqa_logits::tcgen05 {

constexpr int kLanes = 128, kMostColumns = 512;

// "Shared memory descriptor" of rows of `RowBytes` bytes, k contiguous, laid out by TMA's swizzle of the same width.
// Rows of 16 bytes have no swizzle; 8 of them are contiguous. Addresses and strides are in units of 16 bytes, in 14
// bits. The stride along k is ignored, because a row is as wide as the swizzle.
template <int RowBytes>
__host__ __device__ constexpr uint64_t shared_descriptor(uint32_t address) {
  static_assert(RowBytes == 128 || RowBytes == 64 || RowBytes == 32 || RowBytes == 16);
  constexpr uint64_t kSwizzle = RowBytes == 128 ? 2 : RowBytes == 64 ? 4 : RowBytes == 32 ? 6 : 0;
  constexpr uint64_t kEightRows = 8 * RowBytes / 16;
  return uint64_t{address >> 4 & 0x3FFF}  // bits 0 to 13: where the matrix begins
         | kEightRows << 32               // 32 to 45: from 8 rows to the next
         | uint64_t{1} << 46              // 46 to 48: fixed
         | kSwizzle << 61;                // 61 to 63
}

// "Instruction descriptor", of 128 rows by `Columns`, k contiguous in both operands, sums in F32.
template <int Columns>
__host__ __device__ constexpr uint32_t extents() {
  static_assert(Columns % 8 == 0 && Columns >= 8 && Columns <= 256);
  return Columns / 8 << 17     // bits 17 to 22
         | kLanes / 16 << 24;  // 24 to 28
}

// The descriptor of .kind::f8f6f4: both operands are E4M3, whose code is 0.
template <int Columns>
__host__ __device__ constexpr uint32_t fp8_instruction() {
  return 1 << 4 | extents<Columns>();  // bits 4 and 5: F32
}

// The descriptor of .kind::mxf4: both operands are E2M1, scale factors UE8M0. The two factors of this step of k are
// bytes `first` and `first` + 1 of a word.
template <int Columns>
__host__ __device__ constexpr uint32_t fp4_instruction(int first) {
  return static_cast<uint32_t>(first) << 4     // bits 4 and 5: of B
         | 1 << 7                              // 7 to 9: A is E2M1
         | 1 << 10                             // 10 and 11: B is
         | 1 << 23                             // UE8M0
         | static_cast<uint32_t>(first) << 29  // 29 and 30: of A
         | extents<Columns>();
}

// The tensor core itself. Addresses of tensor memory have the lane in their upper half, the column in the lower.
struct Native {
  static constexpr int kSharedBytes = 0;  // for a column of tensor memory
  static constexpr int kArrivals = 1;     // threads of a warp that arrive for it
  static constexpr bool kShared = true;   // the thread blocks of an SM share tensor memory

  __device__ __forceinline__ explicit Native(uint32_t) {}

  // One thread of a warp issues instructions: those of one thread run in order ("Implicitly pipelined").
  static __device__ __forceinline__ bool issues_instructions() { return sm90::elect_one(); }

  // Allocates tensor memory, and writes its address to `slot` in shared memory. Called by the warp that frees it again.
  template <int Columns>
  __device__ __forceinline__ void allocate(uint32_t slot) const {
    asm volatile(
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;\n"
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::"r"(slot),
        "n"(Columns)
        : "memory");
  }
  template <int Columns>
  __device__ __forceinline__ void free(uint32_t address) const {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "n"(Columns) : "memory");
  }

  // Copies 32 rows of 16 bytes from shared memory to four columns, in each quarter of the lanes.
  __device__ __forceinline__ void copy_scales(uint32_t to, uint64_t from) const {
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(to), "l"(from) : "memory");
  }

  // 32 bytes of k: 32 FP8, or 64 FP4 with two scale factors of each row. (`.block32` is `.scale_vec::2X` by the name
  // that targets of a family know.)
  __device__ __forceinline__ void multiply(uint32_t products, uint64_t a, uint64_t b, uint32_t instruction,
                                           bool add) const {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %4, 0;\n"
        "tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, add;\n}" ::"r"(products),
        "l"(a), "l"(b), "r"(instruction), "r"(uint32_t{add})
        : "memory");
  }
  __device__ __forceinline__ void multiply(uint32_t products, uint64_t a, uint64_t b, uint32_t instruction, bool add,
                                           uint32_t a_scales, uint32_t b_scales) const {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %4, 0;\n"
        "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block32 [%0], %1, %2, %3, [%5], [%6], add;\n}" ::"r"(products),
        "l"(a), "l"(b), "r"(instruction), "r"(uint32_t{add}), "r"(a_scales), "r"(b_scales)
        : "memory");
  }

  // Arrives at the barrier when all instructions issued before are done.
  __device__ __forceinline__ void commit(uint32_t barrier) const {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier)
                 : "memory");
  }

  // Loads `Count` columns of the thread's lane; they are valid after `wait_for_loads`. A warp reads its own quarter of
  // the lanes.
  __device__ __forceinline__ void load(uint32_t from, float (&to)[16]) const {
    asm volatile(
        "tcgen05.ld.sync.aligned.32x32b.x16.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, "
        "%15}, [%16];"
        : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]), "=f"(to[4]), "=f"(to[5]), "=f"(to[6]), "=f"(to[7]),
          "=f"(to[8]), "=f"(to[9]), "=f"(to[10]), "=f"(to[11]), "=f"(to[12]), "=f"(to[13]), "=f"(to[14]), "=f"(to[15])
        : "r"(from));
  }
  __device__ __forceinline__ void load(uint32_t from, float (&to)[32]) const {
    asm volatile(
        "tcgen05.ld.sync.aligned.32x32b.x32.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, "
        "%15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
        : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]), "=f"(to[4]), "=f"(to[5]), "=f"(to[6]), "=f"(to[7]),
          "=f"(to[8]), "=f"(to[9]), "=f"(to[10]), "=f"(to[11]), "=f"(to[12]), "=f"(to[13]), "=f"(to[14]), "=f"(to[15]),
          "=f"(to[16]), "=f"(to[17]), "=f"(to[18]), "=f"(to[19]), "=f"(to[20]), "=f"(to[21]), "=f"(to[22]),
          "=f"(to[23]), "=f"(to[24]), "=f"(to[25]), "=f"(to[26]), "=f"(to[27]), "=f"(to[28]), "=f"(to[29]),
          "=f"(to[30]), "=f"(to[31])
        : "r"(from));
  }
  __device__ __forceinline__ void wait_for_loads() const {
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
  }

  // Fences around a barrier: instructions issued before it run before those issued after it.
  __device__ __forceinline__ void before_barrier() const {
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
  }
  __device__ __forceinline__ void after_barrier() const {
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
  }
};

}  // namespace tilewright::mqa_logits::tcgen05
