// What a consumer warpgroup does with the stages: D[64 * Rows, N] += A B^T by wgmma from shared memory.
#pragma once

#include <cstdint>

#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::sm90 {

// Tells whoever loads into a stage of this CTA, or loads it for others, that this warpgroup has read it.
struct Release {
  uint32_t empty = 0;  // the first stage's barrier that this thread tells
  bool tells = false;

  // One thread of the warpgroup for each CTA that loads what this one reads: those of its row and of its column.
  __device__ __forceinline__ Release(uint32_t own_empty, int cluster_size, uint16_t sources, int thread)
      : empty(own_empty) {
    tells = thread < cluster_size && (sources >> thread & 1) != 0;
    if (cluster_size > 1 && tells) {
      empty = cluster_address(own_empty, thread);
    }
  }

  __device__ __forceinline__ void operator()(int stage) const {
    if (tells) {
      barrier_arrive_cluster(empty + stage * 8);
    }
  }
};

// Sums stay in the tensor core; for FP8 it keeps about 14 bits of them.
struct PlainSum {
  static constexpr bool kPromotes = false;
};
// FP8's sums move to F32 registers after every 128 of k.
struct PromotedSum {
  static constexpr bool kPromotes = true;
};

// `kMnA`, `kMnB`: the operand is MN-major.
template <class A, class B, class Sum, class Layout, int Rows, int N, int Boxes, int Stages, bool kMnA = false,
          bool kMnB = false>
struct Mainloop {
  static constexpr int kCount = N / 2;  // accumulators of 64 rows

  uint32_t shared;
  int first_row, first_column;  // of this warpgroup in the tile
  Release release;
  Position<Stages> at{};

  // `k_tiles` stages from where the ring stands. `issued` is called once all have arrived and are at work.
  template <class Issued>
  __device__ __forceinline__ void run(int k_tiles, float (&sum)[Rows][kCount], Issued const& issued) {
    if constexpr (Sum::kPromotes) {
      promoted(k_tiles, sum, issued);
    } else {
      plain(k_tiles, sum, issued);
    }
  }

 private:
  template <class Issued>
  __device__ __forceinline__ void plain(int k_tiles, float (&sum)[Rows][kCount], Issued const& issued) {
    int last = 0;
    for (int i = 0; i < k_tiles; ++i) {
      barrier_wait(Layout::full(shared, at.stage), at.phase);
      wgmma_fence();
#pragma unroll
      for (int box = 0; box < Boxes; ++box) {
        multiply(box, i > 0, sum);
      }
      wgmma_commit();
      // Until the last group is done nothing may touch the sums (ptxas would serialise, C7514).
      // The group before this one is done, and its stage with it.
      wgmma_wait<1>();
      if (i > 0) {
        release(last);
      }
      last = at.stage;
      at.next();
    }
    issued();
    wgmma_wait<0>();
    hold_all(sum);
    release(last);
  }

  template <class Issued>
  __device__ __forceinline__ void promoted(int k_tiles, float (&sum)[Rows][kCount], Issued const& issued) {
    float part[Rows][kCount];
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        sum[r][j] = 0.0f;
      }
    }
    for (int i = 0; i < k_tiles; ++i) {
      barrier_wait(Layout::full(shared, at.stage), at.phase);
#pragma unroll
      for (int box = 0; box < Boxes; ++box) {
        hold_all(part);
        wgmma_fence();
        multiply(box, false, part);
        wgmma_commit();
        wgmma_wait<0>();
        hold_all(part);
        if (box == Boxes - 1) {
          release(at.stage);
        }
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
#pragma unroll
          for (int j = 0; j < kCount; ++j) {
            sum[r][j] += part[r][j];
          }
        }
      }
      at.next();
    }
    issued();
  }

  // 128 bytes of k: four instructions for each 64 rows. `sum`: whether there is a sum already.
  __device__ __forceinline__ void multiply(int box, bool sum, float (&d)[Rows][kCount]) {
    uint64_t const a = descriptor<kMnA>(Layout::a(shared, at.stage) + box * Layout::kBoxA + first_row * 128);
    uint64_t const b = descriptor<kMnB>(Layout::b(shared, at.stage) + box * Layout::kBoxB + first_column * 128);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        // In units of 16 bytes: 32 bytes of k (of an MN-major operand, 16 lines of 128 bytes); 64 rows of 128 bytes.
        wgmma<A, B, N, kMnA, kMnB>(d[r], a + step * (kMnA ? 128 : 2) + r * 512, b + step * (kMnB ? 128 : 2),
                                   sum || (box > 0 && !Sum::kPromotes) || step > 0);
      }
    }
  }

  template <bool kMn>
  static __device__ __forceinline__ uint64_t descriptor(uint32_t address) {
    return kMn ? swizzled_descriptor_mn(address) : swizzled_descriptor(address);
  }

  static __device__ __forceinline__ void hold_all(float (&values)[Rows][kCount]) {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      hold(values[r]);
    }
  }
};

}  // namespace tilewright::sm90
