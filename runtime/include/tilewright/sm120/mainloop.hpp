// The main loop of a consumer warpgroup: D[64 * Rows, N] = A B^T by mma.sync from the stages in shared memory. It takes
// the place of sm90::Mainloop. Each thread holds the same sums as after wgmma: warp w of the warpgroup has rows 16w to
// 16w + 15 of each 64-row slice. So the kernels use the epilogue and the split-k workspace of sm90/.
//
// Its steps serve the other main loops of sm120/, too.
#pragma once

#include <cstdint>

#include "tilewright/sm120/fragments.hpp"
#include "tilewright/sm120/mma.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm120 {

namespace detail {

template <class A, class B>
struct MmaOf {
  using Type = MmaFp8<A, B>;
};
template <>
struct MmaOf<sm90::Bf16, sm90::Bf16> {
  using Type = MmaBf16;
};
template <>
struct MmaOf<sm90::F16, sm90::F16> {
  using Type = MmaF16;
};

}  // namespace detail

// The tensor core sums all of k.
struct PlainSum {
  static constexpr bool kPromotes = false;
};
// The tensor core sums a box, 128 of k of FP8. The sums of the boxes are added in F32 registers.
struct PromotedSum {
  static constexpr bool kPromotes = true;
};

// Warps of a warpgroup. Each of them arrives at the `empty` barrier of a stage that it has read.
constexpr int kReadersOfWarpgroup = 4;

// The functions that follow are the steps of a main loop. `Loop` is Mainloop, ScaledMainloop or BlockScaledMainloop,
// and `Layout` says where its stages lie.
//
// The loop multiplies one portion after the other. A portion is kGroups groups of 8 columns in one step of k. While a
// portion is multiplied, ldmatrix loads the next portion's fragments to other registers. So the last portion of a stage
// is in registers before it is multiplied. Then the warp releases the stage and loads the first fragments of the next
// stage.
//
// `Fragments` has the fragments of both portions: b[portion % 2], and a[step % 2], which serve all portions of a step.

// Waits until the current stage's data have arrived.
template <class Layout, class Loop>
__device__ __forceinline__ void wait_for_stage(Loop const& loop) {
  sm90::barrier_wait(Layout::full(loop.shared, loop.at.stage), loop.at.phase);
}

// Loads the fragments that portion `portion` of the current stage needs: those of B and, if the portion begins a step,
// those of A.
template <class Layout, class Loop, class Fragments>
__device__ __forceinline__ void load_portion(Loop const& loop, Fragments& fragments, int portion) {
  constexpr int kStepsOfBox = Loop::kPortionsOfBox / Loop::kPortionsOfStep;
  int const box = portion / Loop::kPortionsOfBox, step = portion / Loop::kPortionsOfStep % kStepsOfBox,
            in_step = portion % Loop::kPortionsOfStep;
  if (in_step == 0) {
    loop.from_a.load(Layout::a(loop.shared, loop.at.stage) + box * Layout::kBoxA, step, fragments.a[step % 2]);
  }
  loop.from_b.load(Layout::b(loop.shared, loop.at.stage) + box * Layout::kBoxB, step, in_step * Loop::kGroups,
                   fragments.b[portion % 2]);
}

// Multiplies portion `portion` of a stage and adds the products to `sums`.
template <class Loop, class Fragments, int Rows, int Count>
__device__ __forceinline__ void multiply_portion(Fragments const& fragments, int portion, float (&sums)[Rows][Count]) {
  int const step = portion / Loop::kPortionsOfStep;
#pragma unroll
  for (int i = 0; i < Loop::kGroups; ++i) {
    int const group = portion % Loop::kPortionsOfStep * Loop::kGroups + i;
    if (group < Loop::kAllGroups) {
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        float (&d)[4] = *reinterpret_cast<float (*)[4]>(sums[r] + group * 4);
        Loop::Mma::mma(d, fragments.a[step % 2][r], fragments.b[portion % 2][i]);
      }
    }
  }
}

// A word that depends on all fragments that were multiplied for `sums`: on sums of every load of B and of every row.
// Words of the fragments themselves would have to stay in registers until the stage is released. A load of B has two
// 8-column groups. With `kUnpacks` it has one, because an operand is loaded word by word (narrow_fragments.hpp).
template <bool kUnpacks = false, int Rows, int Count>
__device__ __forceinline__ uint32_t known_after(float const (&sums)[Rows][Count]) {
  uint32_t known = 0;
#pragma unroll
  for (int group = 0; group < Count / 4; group += kUnpacks ? 1 : 2) {
    known |= __float_as_uint(sums[0][group * 4]);
  }
#pragma unroll
  for (int r = 1; r < Rows; ++r) {
    known |= __float_as_uint(sums[r][Count - 4]);
  }
  return known;
}

// Releases the current stage: tells the producer that this warp has read it. The arrival waits for the fragments of the
// last portion and for `others`, a word that depends on all other loads of the stage. ptxas may order the loads of a
// stage in any way, so those of the last portion may not be the last to return.
template <class Layout, bool kUnpacks = false, class Loop, class Fragments>
__device__ __forceinline__ void release_stage(Loop const& loop, Fragments const& fragments, uint32_t others) {
  constexpr int kLast = Loop::kPortions - 1, kLastStep = kLast / Loop::kPortionsOfStep;
  constexpr int kFirstGroup = kLast % Loop::kPortionsOfStep * Loop::kGroups;
  uint32_t loaded = others;
#pragma unroll
  for (auto const& a : fragments.a[kLastStep % 2]) {
    loaded |= kUnpacks ? a[0] | a[1] | a[2] | a[3] : a[0];
  }
#pragma unroll
  for (int i = 0; i < Loop::kGroups; i += kUnpacks ? 1 : 2) {
    if (kFirstGroup + i < Loop::kAllGroups) {
      uint32_t const(&b)[2] = fragments.b[kLast % 2][i];
      loaded |= kUnpacks ? b[0] | b[1] : b[0];
    }
  }
  if (threadIdx.x % 32 == 0) {
    sm90::barrier_arrive(Layout::empty(loop.shared, loop.at.stage) + sm90::zero_after(loaded));
  }
}

// Releases the next `k_tiles` stages without reading them.
template <class Layout, class Loop>
__device__ __forceinline__ void skip_stages(Loop& loop, int k_tiles) {
#pragma unroll 1
  for (int i = 0; i < k_tiles; ++i) {
    wait_for_stage<Layout>(loop);
    __syncwarp();  // no lane waits for this phase of the barrier any more
    if (threadIdx.x % 32 == 0) {
      sm90::barrier_arrive(Layout::empty(loop.shared, loop.at.stage));
    }
    loop.at.next();
  }
}

// Sets all sums to zero.
template <int Rows, int Count>
__device__ __forceinline__ void clear(float (&sums)[Rows][Count]) {
#pragma unroll
  for (auto& row : sums) {
#pragma unroll
    for (float& sum : row) {
      sum = 0.0f;
    }
  }
}

// `Sum`: PlainSum or PromotedSum. `Rows`, `N`: 64-row slices and columns of the warpgroup. `kMnA`, `kMnB`: whether the
// operand is MN-major.
template <class A, class B, class Sum, class Layout, int Rows, int N, int Boxes, int Stages, bool kMnA = false,
          bool kMnB = false>
struct Mainloop {
  using Mma = typename detail::MmaOf<A, B>::Type;
  static constexpr int kCount = N / 2;  // sums of 64 rows
  // A portion has four products, unless the warpgroup has fewer in a step. Four products take 64 clocks of the tensor
  // core, and an ldmatrix takes about 30.
  static constexpr int kAllGroups = N / 8, kGroups = kAllGroups == 1 ? 1 : Rows == 1 && kAllGroups > 2 ? 4 : 2;
  static constexpr int kPortionsOfStep = (kAllGroups + kGroups - 1) / kGroups;
  static constexpr int kPortionsOfBox = kSteps * kPortionsOfStep, kPortions = Boxes * kPortionsOfBox;

  uint32_t shared;
  FragmentsA<Rows, kMnA> from_a;
  FragmentsB<N, kMnB> from_b;
  sm90::Position<Stages> at{};

  // `first_row`, `first_column`: where this warpgroup's part begins in the tile.
  __device__ __forceinline__ Mainloop(uint32_t memory, int first_row, int first_column)
      : shared(memory), from_a(first_row), from_b(first_column) {}

  // Multiplies the next `k_tiles` stages of the ring. Calls `issued` when all of them have arrived.
  template <class Issued>
  __device__ __forceinline__ void run(int k_tiles, float (&sum)[Rows][kCount], Issued const& issued) {
    float part[Sum::kPromotes ? Rows : 1][Sum::kPromotes ? kCount : 1];  // of the current box
    clear(sum);
    clear(part);
    Fragments fragments;
    wait_for_stage<Layout>(*this);
    load_portion<Layout>(*this, fragments, 0);
#pragma unroll 1
    for (int left = k_tiles; left > 0; --left) {
      if (left == 1) {
        issued();
      }
#pragma unroll
      for (int portion = 0; portion < kPortions; ++portion) {
        if (portion + 1 < kPortions) {
          load_portion<Layout>(*this, fragments, portion + 1);
        } else {
          if constexpr (Sum::kPromotes) {
            release_stage<Layout>(*this, fragments, known_after(part) | (Boxes > 1 ? known_after(sum) : 0));
          } else {
            release_stage<Layout>(*this, fragments, known_after(sum));
          }
          at.next();
          if (left > 1) {
            wait_for_stage<Layout>(*this);
            load_portion<Layout>(*this, fragments, 0);
          }
        }
        if constexpr (Sum::kPromotes) {
          if (portion % kPortionsOfBox < kPortionsOfStep) {  // a box begins, and all of the previous one is multiplied
            promote(part, sum, portion % kPortionsOfStep);
          }
          multiply_portion<Mainloop>(fragments, portion, part);
        } else {
          multiply_portion<Mainloop>(fragments, portion, sum);
        }
      }
    }
    if constexpr (Sum::kPromotes) {
#pragma unroll
      for (int portion = 0; portion < kPortionsOfStep; ++portion) {
        promote(part, sum, portion);
      }
    }
  }

 private:
  struct Fragments {
    uint32_t a[2][Rows][4], b[2][kGroups][2];
  };

  // Sets all sums to zero by their indices. With the loops of sm120::clear, ptxas orders the instructions of some
  // kernels otherwise.
  template <int Slices, int Count>
  static __device__ __forceinline__ void clear(float (&sums)[Slices][Count]) {
#pragma unroll
    for (int r = 0; r < Slices; ++r) {
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        sums[r][i] = 0.0f;
      }
    }
  }

  // Adds the sums of a box to those of all boxes, in the columns of portion `portion` of a step, and clears them.
  static __device__ __forceinline__ void promote(float (&part)[Rows][kCount], float (&sum)[Rows][kCount], int portion) {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int i = portion * kGroups * 4; i < (portion + 1) * kGroups * 4 && i < kCount; ++i) {
        sum[r][i] += part[r][i];
        part[r][i] = 0.0f;
      }
    }
  }
};

}  // namespace tilewright::sm120
