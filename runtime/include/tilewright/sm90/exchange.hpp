// Split k: the CTAs of a cluster that share a tile add their sums through distributed shared memory, each a part of
// the tile, in the order of k. Needs neither a workspace nor atomics, and gives the same bits every time.
#pragma once

#include <cstdint>

#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

// Sums lie in the stages' memory as threads hold them: quad by quad, 16 bytes of every consumer thread in turn.
template <int Rows, int N, int kThreads>
struct Exchange {
  static constexpr int kBytes = Rows * (N / 8) * kThreads * 16;

  static __device__ __forceinline__ uint32_t place(uint32_t shared, int r, int quad) {
    return shared + ((r * (N / 8) + quad) * kThreads + static_cast<int>(threadIdx.x)) * 16;
  }

  static __device__ __forceinline__ void lay_down(uint32_t shared, float const (&sums)[Rows][N / 2]) {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int quad = 0; quad < N / 8; ++quad) {
        float const* const v = sums[r] + quad * 4;
        store_floats(place(shared, r, quad), v[0], v[1], v[2], v[3]);
      }
    }
  }

  // The cluster's sums of `Quads` quads from `quad` on, added in the order of k. Another SM's shared memory answers
  // after hundreds of clocks: the loads of several parts are on their way at once.
  template <int Quads>
  static __device__ __forceinline__ void add(uint32_t shared, int r, int quad, ClusterShape const& shape,
                                             ClusterPlace const& place_in, float (&sum)[Quads * 4]) {
    // Parts; with more, accumulators of the main loop spill.
    constexpr int kAtOnce = Rows * N > 288 || Quads > 4 ? 1 : Quads > 2 ? 2 : 4;
#pragma unroll
    for (float& value : sum) {
      value = 0.0f;
    }
    uint32_t const own = place(shared, r, quad);
#pragma unroll 1
    for (int first = 0; first < shape.splits; first += kAtOnce) {
      float4 parts[kAtOnce][Quads];
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) {
        if (first + p < shape.splits) {
          uint32_t const from = cluster_address(own, place_in.rank(shape, first + p));
#pragma unroll
          for (int i = 0; i < Quads; ++i) {
            parts[p][i] = load_cluster(from + i * kThreads * 16);
          }
        }
      }
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) {
        if (first + p < shape.splits) {
#pragma unroll
          for (int i = 0; i < Quads; ++i) {
            float4 const& part = parts[p][i];
            sum[i * 4] += part.x, sum[i * 4 + 1] += part.y, sum[i * 4 + 2] += part.z, sum[i * 4 + 3] += part.w;
          }
        }
      }
    }
  }
};

}  // namespace tilewright::sm90
