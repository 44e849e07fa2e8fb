// From the products of 64 keys with the heads of some queries to logits, but for the keys' scales:
//
//   sum over h of weight[q, h] * relu(product[j, q, h])
//
// wgmma and mma.sync leave thread t of quad g of a warp, of rows (keys) g and g + 8, columns 8i + 2t and 8i + 2t + 1.
// So heads are laid out such that each thread of a quad has a query of its own, all heads of it: those of four queries
// (a set) take turns, two heads at a time. Nothing is exchanged then. Of two queries two threads have one, half of its
// heads each; of one query, four.
#pragma once

#include <cstdint>

namespace tilewright::mqa_logits {

// `kBounded`: products are less than 2^25. Then half of them are clamped by the multiplier (times 2^-25, saturated,
// which is exact), half by the unit that takes maxima, which is half as fast (H200).
template <bool kBounded>
struct Relu {
  // What weights of even and odd heads are multiplied by, and what makes up for it.
  static constexpr float kUnit = 1.0f / (1 << 25), kScale = kBounded ? float{1 << 25} : 1.0f;
  static __device__ __forceinline__ float unit(int head) { return kBounded && head % 2 != 0 ? kUnit : 1.0f; }

  static __device__ __forceinline__ float relu(float product, int head) {
    float found = fmaxf(product, 0.0f);
    if (kBounded && head % 2 == 0) {
      asm("mul.sat.f32 %0, %1, %2;" : "=f"(found) : "f"(product), "f"(kUnit));
    }
    return found;
  }

  // Adds an even and an odd head, each to a sum of its own: by one instruction where there is one (sm_100).
  static __device__ __forceinline__ void add(float (&sums)[2], float even, float odd, float const* weights) {
    float const terms[2] = {relu(even, 0), relu(odd, 1)};
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200
    asm("{\n.reg .b64 x, w, s;\n"
        "mov.b64 x, {%2, %3};\nmov.b64 w, {%4, %5};\nmov.b64 s, {%0, %1};\n"
        "fma.rn.f32x2 s, x, w, s;\nmov.b64 {%0, %1}, s;\n}"
        : "+f"(sums[0]), "+f"(sums[1])
        : "f"(terms[0]), "f"(terms[1]), "f"(weights[0]), "f"(weights[1]));
#else
    sums[0] = fmaf(terms[0], weights[0], sums[0]), sums[1] = fmaf(terms[1], weights[1], sums[1]);
#endif
  }
};

template <int Heads, int Queries, bool kBounded>
struct Reduction : Relu<kBounded> {
  using Relu<kBounded>::relu;
  static constexpr int kHeads = Heads, kQueries = Queries, kColumns = Heads * Queries;
  static constexpr int kLanes = Queries >= 4 ? 1 : 4 / Queries;  // threads of a quad that have the same query
  static constexpr int kSetQueries = 4 / kLanes, kSets = Queries / kSetQueries;
  static constexpr int kSetGroups = Heads * kSetQueries / 8;  // of 8 columns
  static constexpr int kTurn = 2 * kLanes;                    // heads of a query that follow each other
  static constexpr int kRows = kLanes == 1 ? 2 : 1;           // of a thread's two, of which it ends up with the logits
  static_assert(Heads % 8 == 0 && (Queries & (Queries - 1)) == 0);

  // Of thread t of a quad: its query within a set, the first of its heads in a turn, and what it ends up with.
  static __device__ __forceinline__ int query(int t) { return t / kLanes; }
  static __device__ __forceinline__ int first_head(int t) { return t % kLanes * 2; }
  static __device__ __forceinline__ int row(int t) { return kRows == 2 ? 0 : t % 2; }
  static __device__ __forceinline__ bool stores(int t) { return kLanes < 4 || t < 2; }

  // Of a column: where its head's numbers (weight, scale factors) stand among those of the block of queries.
  static __device__ __forceinline__ int head_of(int column) {
    int const set = column / (kSetGroups * 8), query = set * kSetQueries + column % 8 / kTurn;
    return query * Heads + column / 8 % kSetGroups * kTurn + column % kTurn;
  }

  // Of even and odd heads apart: chains of additions that do not wait for each other.
  float sums[kSets][2][2];

  // Adds groups of columns from `First` on; `weights` are those of all.
  template <int First, int Count>
  __device__ __forceinline__ void add(float const (&products)[Count], float const (&weights)[kColumns / 4]) {
#pragma unroll
    for (int i = 0; i < Count / 4; ++i) {
      int const group = First + i, set = group / kSetGroups;
#pragma unroll
      for (int c = 0; c < 2; ++c) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          float const product = products[i * 4 + r * 2 + c], weight = weights[group * 2 + c];
          float& sum = sums[set][r][c];
          float const term = relu(product, c);
          sum = group % kSetGroups == 0 ? term * weight : fmaf(term, weight, sum);
        }
      }
    }
  }

  // The logits that this thread ends up with, of its query of each set.
  __device__ __forceinline__ void finish(float (&own)[kSets][kRows]) {
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
      float rows[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        rows[r] = sums[s][r][0] + sums[s][r][1];
      }
      if constexpr (kLanes == 1) {
        own[s][0] = rows[0], own[s][1] = rows[1];
      } else {
        // One of two threads takes the first row, the other the second.
        bool const odd = threadIdx.x % 2 != 0;
        own[s][0] = (odd ? rows[1] : rows[0]) + __shfl_xor_sync(~0u, odd ? rows[0] : rows[1], 1);
        if constexpr (kLanes == 4) {
          own[s][0] += __shfl_xor_sync(~0u, own[s][0], 2);
        }
      }
    }
  }
};

}  // namespace tilewright::mqa_logits
