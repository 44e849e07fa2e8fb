// The main loop of a consumer warpgroup: D[64 * Rows, N] = A B^T by wgmma, from the stages in shared memory.
#pragma once

#include <cstdint>

#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::sm90 {

// Arrives at the `empty` barriers of a stage, in each CTA that loads data which this warpgroup reads: its own CTA, and
// those of its row and its column of the cluster.
struct Release {
  uint32_t empty = 0;  // the barrier of stage 0, in the CTA at whose barriers this thread arrives
  bool tells = false;  // whether this thread arrives at barriers

  // The thread with number `thread` arrives at the barriers of the CTA with that rank, if the rank's bit in `sources`
  // is set: `sources` are the CTAs that load what this CTA reads.
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

// How the products along k are added up: by the tensor core. With FP8, it keeps about 14 bits of a sum.
struct PlainSum {
  static constexpr bool kPromotes = false;
};
// The same, but the sums of every 128 of k are added to F32 registers, for FP8.
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

  // Sets `sum` to the product of the next `k_tiles` stages of the ring. Calls `issued` when all of them have arrived
  // and their wgmmas are issued.
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
      // Waits until the previous stage's group is done, so that its stage can be released. The sums stay untouched
      // until the last group is done: otherwise ptxas would serialise the wgmmas (C7514).
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

  // Issues the wgmmas of a box, 128 bytes of k: four for each 64 rows. `sum`: they add to `d`; otherwise the first of
  // them overwrite it.
  __device__ __forceinline__ void multiply(int box, bool sum, float (&d)[Rows][kCount]) {
    uint64_t const a = descriptor<kMnA>(Layout::a(shared, at.stage) + box * Layout::kBoxA + first_row * 128);
    uint64_t const b = descriptor<kMnB>(Layout::b(shared, at.stage) + box * Layout::kBoxB + first_column * 128);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        // Descriptors count units of 16 bytes. A step is 32 bytes of k, for an MN-major operand 16 rows of 128 bytes. A
        // slice `r` is 64 rows of 128 bytes.
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
