// tcgen05.mma: 128 rows of A by 16 rows of B in shared memory, with scale factors and sums in tensor memory.
#pragma once

#include "tilewright/mqa_logits/tcgen05.hpp"
#include "tilewright/self_test/kernel.hpp"

namespace tilewright::self_test {

using TensorCore = mqa_logits::tcgen05::Native;

constexpr int kTensorRows = 128, kTensorColumns = 16;
constexpr int kTensorStep = 1;       // which 32 bytes of a row of 128 are multiplied
constexpr int kAtomWords = 128;      // of scale factors: 32 rows of 16 bytes
constexpr int kHeldColumns = 32;     // of tensor memory: 16 of sums, and four each of scale factors
constexpr uint32_t kScalesOfA = 16;  // the first column
constexpr uint32_t kScalesOfB = 20;

// PTX ISA, "Instruction descriptor": codes of the elements, by kind. The same bits mean other types in other kinds.
template <int kCodeA, int kCodeB>
constexpr uint32_t kTypes = uint32_t{kCodeA} << 7 | uint32_t{kCodeB} << 10;

// An instruction without scale factors. `NAME` is its kind.
#define TILEWRIGHT_SELF_TEST_KIND(STRUCT, NAME)                                                     \
  struct STRUCT {                                                                                   \
    static constexpr int kBlocks = 0;                                                               \
    static __device__ __forceinline__ void mma(uint32_t d, uint64_t a, uint64_t b, uint32_t word) { \
      asm volatile(                                                                                 \
          "{\n.reg .pred add;\nsetp.ne.b32 add, 1, 0;\n"                                            \
          "tcgen05.mma.cta_group::1.kind::" NAME " [%0], %1, %2, %3, add;\n}" ::"r"(d),             \
          "l"(a), "l"(b), "r"(word)                                                                 \
          : "memory");                                                                              \
    }                                                                                               \
  };
// The same with `BLOCKS` scale factors along k, of UE8M0 or UE4M3.
#define TILEWRIGHT_SELF_TEST_SCALED_KIND(STRUCT, NAME, BLOCKS, UE8M0)                                         \
  struct STRUCT {                                                                                             \
    static constexpr int kBlocks = BLOCKS;                                                                    \
    static constexpr uint32_t kFactors = uint32_t{UE8M0} << 23;                                               \
    static __device__ __forceinline__ void mma(uint32_t d, uint64_t a, uint64_t b, uint32_t word, uint32_t f, \
                                               uint32_t g) {                                                  \
      asm volatile(                                                                                           \
          "{\n.reg .pred add;\nsetp.ne.b32 add, 1, 0;\n"                                                      \
          "tcgen05.mma.cta_group::1.kind::" NAME " [%0], %1, %2, %3, [%4], [%5], add;\n}" ::"r"(d),           \
          "l"(a), "l"(b), "r"(word), "r"(f), "r"(g)                                                           \
          : "memory");                                                                                        \
    }                                                                                                         \
  };

TILEWRIGHT_SELF_TEST_KIND(KindF16, "f16")
TILEWRIGHT_SELF_TEST_KIND(KindTf32, "tf32")
TILEWRIGHT_SELF_TEST_KIND(KindF8f6f4, "f8f6f4")
TILEWRIGHT_SELF_TEST_SCALED_KIND(KindMxf8f6f4, "mxf8f6f4.block_scale.block32", 1, true)
TILEWRIGHT_SELF_TEST_SCALED_KIND(KindMxf4, "mxf4.block_scale.block32", 2, true)
TILEWRIGHT_SELF_TEST_SCALED_KIND(KindNvf4, "mxf4nvf4.block_scale.block16", 4, false)

#undef TILEWRIGHT_SELF_TEST_KIND
#undef TILEWRIGHT_SELF_TEST_SCALED_KIND

// Stores 16 sums to the thread's lane of tensor memory.
__device__ __forceinline__ void store_sums(uint32_t to, uint32_t const* words) {
  asm volatile(
      "tcgen05.st.sync.aligned.32x32b.x16.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, "
      "%15, %16};\ntcgen05.wait::st.sync.aligned;" ::"r"(to),
      "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(words[4]), "r"(words[5]), "r"(words[6]),
      "r"(words[7]), "r"(words[8]), "r"(words[9]), "r"(words[10]), "r"(words[11]), "r"(words[12]), "r"(words[13]),
      "r"(words[14]), "r"(words[15])
      : "memory");
}

// Operands: the images of A (128 rows of 128 bytes, swizzled) and of B (16 such rows), [128 lanes][16] sums; with scale
// factors an atom of A's and one of B's before the sums, and behind them the bytes of a word with which those of A and
// of B begin. Results: [128][16] sums.
template <class Kind, uint32_t kElementTypes>
struct TensorMma {
  static constexpr int kThreads = 128, kImages = (kTensorRows + kTensorColumns) * 32;
  static constexpr bool kScaled = Kind::kBlocks > 0;
  static constexpr int kCopied = kImages + (kScaled ? 2 * kAtomWords : 0), kSharedBytes = kCopied * 4 + 16;
  static constexpr int kSums = kTensorRows * kTensorColumns;
  static constexpr int kOperandWords = kCopied + kSums + (kScaled ? 2 : 0), kResultWords = kSums;

  static __device__ __forceinline__ void run(uint32_t const* operands, uint32_t* results, uint32_t shared) {
    TensorCore const core(shared);
    uint32_t const barrier = shared + kCopied * 4, slot = barrier + 8;
    copy_image(shared, operands, kCopied, kThreads);
    if (threadIdx.x == 0) {
      sm90::barrier_init(barrier, 1);
      sm90::fence_barrier_init();
    }
    if (threadIdx.x / 32 == 0) {
      core.allocate<kHeldColumns>(slot);
    }
    sm90::fence_async_proxy();
    core.before_barrier();
    __syncthreads();
    core.after_barrier();
    uint32_t memory;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(memory) : "r"(slot) : "memory");
    uint32_t const lanes = memory + (threadIdx.x / 32 * 32 << 16);
    store_sums(lanes, operands + kCopied + threadIdx.x * kTensorColumns);
    core.before_barrier();
    __syncthreads();
    core.after_barrier();
    if (threadIdx.x == 0) {
      multiply(core, memory, shared, operands + kCopied + kSums);
      core.commit(barrier);
    }
    sm90::barrier_wait(barrier, 0);
    core.after_barrier();
    float d[kTensorColumns];
    core.load(lanes, d);
    core.wait_for_loads();
#pragma unroll
    for (int i = 0; i < kTensorColumns; ++i) {
      results[threadIdx.x * kTensorColumns + i] = __float_as_uint(d[i]);
    }
    core.before_barrier();
    __syncthreads();
    if (threadIdx.x / 32 == 0) {
      core.after_barrier();
      core.free<kHeldColumns>(memory);
    }
  }

 private:
  static __device__ __forceinline__ void multiply(TensorCore const& core, uint32_t memory, uint32_t shared,
                                                  uint32_t const* first) {
    namespace descriptors = mqa_logits::tcgen05;
    uint64_t const a = descriptors::shared_descriptor<128>(shared) + kTensorStep * 2;
    uint64_t const b = descriptors::shared_descriptor<128>(shared + kTensorRows * 128) + kTensorStep * 2;
    uint32_t const word = descriptors::extents<kTensorColumns>() | kElementTypes;
    if constexpr (kScaled) {
      uint32_t const atoms = shared + kImages * 4;
      core.copy_scales(memory + kScalesOfA, descriptors::shared_descriptor<16>(atoms));
      core.copy_scales(memory + kScalesOfB, descriptors::shared_descriptor<16>(atoms + kAtomWords * 4));
      Kind::mma(memory, a, b, word | Kind::kFactors | first[0] << 29 | first[1] << 4, memory + kScalesOfA,
                memory + kScalesOfB);
    } else {
      Kind::mma(memory, a, b, word | 1u << 4);  // sums of F32
    }
  }
};

}  // namespace tilewright::self_test
