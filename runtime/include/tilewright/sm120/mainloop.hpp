// The main loop of a consumer warpgroup: D[64 * Rows, N] = A B^T by mma.sync from the stages in shared memory. It takes
// the place of sm90::Mainloop. Each thread holds the same sums as after wgmma: warp w of the warpgroup has rows 16w to
// 16w + 15 of each 64-row slice. So the kernels use the epilogue and the split-k workspace of sm90/.
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

// The loop multiplies one portion after the other. A portion is kGroups groups of 8 columns in one step of k. While a
// portion is multiplied, ldmatrix loads the next portion's fragments to other registers. So the last portion of a stage
// is in registers before it is multiplied. Then the warp releases the stage and loads the first fragments of the next
// stage.
//
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
    wait();
    load(fragments, 0);
#pragma unroll 1
    for (int left = k_tiles; left > 0; --left) {
      if (left == 1) {
        issued();
      }
#pragma unroll
      for (int portion = 0; portion < kPortions; ++portion) {
        if (portion + 1 < kPortions) {
          load(fragments, portion + 1);
        } else {
          if constexpr (Sum::kPromotes) {
            release(fragments, known_after(part) | (Boxes > 1 ? known_after(sum) : 0));
          } else {
            release(fragments, known_after(sum));
          }
          at.next();
          if (left > 1) {
            wait();
            load(fragments, 0);
          }
        }
        if constexpr (Sum::kPromotes) {
          if (portion % kPortionsOfBox < kPortionsOfStep) {  // a box begins, and all of the previous one is multiplied
            promote(part, sum, portion % kPortionsOfStep);
          }
          multiply(fragments, portion, part);
        } else {
          multiply(fragments, portion, sum);
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
  // Fragments of the current portion and of the next one. Those of A serve all portions of a step.
  struct Fragments {
    uint32_t a[2][Rows][4], b[2][kGroups][2];
  };

  template <int Lines, int Count>
  static __device__ __forceinline__ void clear(float (&values)[Lines][Count]) {
#pragma unroll
    for (int r = 0; r < Lines; ++r) {
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        values[r][i] = 0.0f;
      }
    }
  }

  // Waits for the current stage's data.
  __device__ __forceinline__ void wait() const { sm90::barrier_wait(Layout::full(shared, at.stage), at.phase); }

  // Loads the fragments that portion `portion` of the current stage needs: those of B and, if the portion begins a
  // step, those of A.
  __device__ __forceinline__ void load(Fragments& fragments, int portion) const {
    int const box = portion / kPortionsOfBox, step = portion / kPortionsOfStep % kSteps,
              in_step = portion % kPortionsOfStep;
    if (in_step == 0) {
      from_a.load(Layout::a(shared, at.stage) + box * Layout::kBoxA, step, fragments.a[step % 2]);
    }
    from_b.load(Layout::b(shared, at.stage) + box * Layout::kBoxB, step, in_step * kGroups, fragments.b[portion % 2]);
  }

  // Tells the producer that this warp has read the current stage. The arrival waits for the fragments of the last
  // portion and for `products`, a word that depends on all other fragments of the stage. ptxas may order the loads of a
  // stage in any way, so those of the last portion may not be the last to return.
  __device__ __forceinline__ void release(Fragments const& fragments, uint32_t products) const {
    uint32_t loaded = products;
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      loaded |= fragments.a[(kSteps - 1) % 2][r][0];
    }
#pragma unroll
    for (int i = 0; i < kGroups; i += 2) {
      if ((kPortionsOfStep - 1) * kGroups + i < kAllGroups) {
        loaded |= fragments.b[(kPortions - 1) % 2][i][0];
      }
    }
    if (threadIdx.x % 32 == 0) {
      sm90::barrier_arrive(Layout::empty(shared, at.stage) + sm90::zero_after(loaded));
    }
  }

  // A word that depends on all fragments that were multiplied for `sums`: on sums of every load of B and of every row.
  // Words of the fragments themselves would have to stay in registers until the stage is released.
  static __device__ __forceinline__ uint32_t known_after(float const (&sums)[Rows][kCount]) {
    uint32_t known = 0;
#pragma unroll
    for (int group = 0; group < kAllGroups; group += 2) {  // a load of B has two
      known |= __float_as_uint(sums[0][group * 4]);
    }
#pragma unroll
    for (int r = 1; r < Rows; ++r) {
      known |= __float_as_uint(sums[r][kCount - 4]);
    }
    return known;
  }

  static __device__ __forceinline__ void multiply(Fragments const& fragments, int portion, float (&d)[Rows][kCount]) {
    int const step = portion / kPortionsOfStep;
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      int const group = portion % kPortionsOfStep * kGroups + i;
      if (group < kAllGroups) {
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
          float (&sums)[4] = *reinterpret_cast<float (*)[4]>(d[r] + group * 4);
          Mma::mma(sums, fragments.a[step % 2][r], fragments.b[portion % 2][i]);
        }
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
