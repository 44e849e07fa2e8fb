// The main loop of a consumer warpgroup: D[64 * Rows, N] += A B^T by wgmma from the stages in shared memory.
#pragma once

#include <cstdint>

#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::sm90 {

// Arrives at the `empty` barriers of a stage: tells each CTA that loads data which this warpgroup reads that it has
// read them.
struct Release {
  uint32_t empty = 0;  // barrier of the first stage at which this thread arrives
  bool tells = false;

  // One thread arrives for each CTA that loads what this CTA reads: the CTAs of its row and of its column (`sources`).
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

// The tensor core adds up all of k. With FP8 it keeps about 14 bits of a sum.
struct PlainSum {
  static constexpr bool kPromotes = false;
};
// FP8's sums are added to F32 registers after every 128 of k.
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

  // Multiplies the next `k_tiles` stages of the ring. Calls `issued` when all of them have arrived and their wgmmas are
  // issued.
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
      // Nothing may touch the sums until the last group is done: ptxas would serialise the wgmmas (C7514). After this
      // wait, the previous group is done, and its stage can be released.
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

  // Issues the wgmmas of a box, 128 bytes of k: four for each 64 rows. `sum`: add to `d`, otherwise overwrite it.
  __device__ __forceinline__ void multiply(int box, bool sum, float (&d)[Rows][kCount]) {
    uint64_t const a = descriptor<kMnA>(Layout::a(shared, at.stage) + box * Layout::kBoxA + first_row * 128);
    uint64_t const b = descriptor<kMnB>(Layout::b(shared, at.stage) + box * Layout::kBoxB + first_column * 128);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        // Descriptors count 16 bytes. A step is 32 bytes of k (MN-major: 16 lines of 128 bytes); r, 64 rows of 128
        // bytes.
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
