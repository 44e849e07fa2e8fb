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
  // Pieces of `Quads` quads whose loads may be on their way together.
  static constexpr int together(int quads) { return Rows * N > 128 || quads > 2 ? 1 : 4 / quads; }

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

  // The cluster's sums of `Count` pieces of `Quads` quads, added in the order of k: pieces `first`, `first + step` and
  // on, of those that there are. Another SM's shared memory answers after some thousand clocks: the loads of all
  // pieces, and of several parts, are on their way at once.
  template <int Count, int Quads>
  static __device__ __forceinline__ void add(uint32_t shared, int first, int step, ClusterShape const& shape,
                                             ClusterPlace const& place_in, float (&sums)[Count][Quads * 4]) {
    constexpr int kPieces = Rows * (N / 8 / Quads);
    // Parts; with more, accumulators of the main loop spill.
    constexpr int kAtOnce = Rows * N > 288 || Quads > 4 ? 1 : Quads > 2 ? 2 : 4;
#pragma unroll
    for (float (&sum)[Quads* 4] : sums) {
#pragma unroll
      for (float& value : sum) {
        value = 0.0f;
      }
    }
#pragma unroll 1
    for (int part = 0; part < shape.splits; part += kAtOnce) {
      float4 parts[kAtOnce][Count][Quads];
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) {
        if (part + p < shape.splits) {
          uint32_t const from = cluster_address(place(shared, 0, 0), place_in.rank(shape, part + p));
#pragma unroll
          for (int piece = 0; piece < Count; ++piece) {
            if (first + piece * step < kPieces) {
#pragma unroll
              for (int i = 0; i < Quads; ++i) {
                parts[p][piece][i] = load_cluster(from + ((first + piece * step) * Quads + i) * kThreads * 16);
              }
            }
          }
        }
      }
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) {
        if (part + p < shape.splits) {
#pragma unroll
          for (int piece = 0; piece < Count; ++piece) {
#pragma unroll
            for (int i = 0; i < Quads; ++i) {
              float4 const& more = parts[p][piece][i];
              float* const sum = sums[piece] + i * 4;
              sum[0] += more.x, sum[1] += more.y, sum[2] += more.z, sum[3] += more.w;
            }
          }
        }
      }
    }
  }
};

}  // namespace tilewright::sm90
