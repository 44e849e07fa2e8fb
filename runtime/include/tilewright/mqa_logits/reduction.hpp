// From the products of 64 keys with the heads of some queries to logits, without the keys' scales:
//
//   sum over h of weight[q, h] * relu(product[j, q, h])
//
// After wgmma and mma.sync, thread t of quad g (four threads) of a warp holds rows (keys) g and g + 8, columns 8i + 2t
// and 8i + 2t + 1. Heads are ordered so that each thread of a quad has all heads of one query: four queries (a set)
// follow each other, two heads at a time. Then threads exchange no sums. With two queries, two threads share a query
// and have half of its heads each; with one query, four threads do.
#pragma once

#include <cstdint>

namespace tilewright::mqa_logits {

// `kBounded`: products are less than 2^25. Then the multiplier clamps half of them (times 2^-25, saturated, which is
// exact), and the unit for maxima the other half: on an H200 it is half as fast as the multiplier.
template <bool kBounded>
struct Relu {
  // kUnit: the factor of weights of odd heads, where even heads' products have it. kScale: undoes it in the sum.
  static constexpr float kUnit = 1.0f / (1 << 25), kScale = kBounded ? float{1 << 25} : 1.0f;
  static __device__ __forceinline__ float unit(int head) { return kBounded && head % 2 != 0 ? kUnit : 1.0f; }

  static __device__ __forceinline__ float relu(float product, int head) {
    float result = fmaxf(product, 0.0f);
    if (kBounded && head % 2 == 0) {
      asm("mul.sat.f32 %0, %1, %2;" : "=f"(result) : "f"(product), "f"(kUnit));
    }
    return result;
  }

  // Adds an even and an odd head, each to its own sum; sm_100 does so in one instruction.
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
  static constexpr int kRows = kLanes == 1 ? 2 : 1;           // of a thread's two rows, whose logits it stores
  static_assert(Heads % 8 == 0 && (Queries & (Queries - 1)) == 0);

  // For thread t of a quad: its query in a set, its first head in a turn, the row whose logits it stores, and whether
  // it stores any.
  static __device__ __forceinline__ int query(int t) { return t / kLanes; }
  static __device__ __forceinline__ int first_head(int t) { return t % kLanes * 2; }
  static __device__ __forceinline__ int row(int t) { return kRows == 2 ? 0 : t % 2; }
  static __device__ __forceinline__ bool stores(int t) { return kLanes < 4 || t < 2; }

  // The index of a column's head among those of the block of queries, for its weight and scale factors.
  static __device__ __forceinline__ int head_of(int column) {
    int const set = column / (kSetGroups * 8), query = set * kSetQueries + column % 8 / kTurn;
    return query * Heads + column / 8 % kSetGroups * kTurn + column % kTurn;
  }

  // Separate sums of even and odd heads: two chains of additions that do not wait for each other.
  float sums[kSets][2][2];

  // Adds products of 8-column groups starting at group `First`. `weights`: of all columns.
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

  // Sets `own` to the logits that this thread stores, for its query of each set.
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
