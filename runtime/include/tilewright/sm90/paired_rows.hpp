// The loop of the warp that loads (producer.hpp) where the rows of one operand are in pairs (gated.hpp). Both operands
// have k contiguous.
#pragma once

#include <cstdint>

#include "tilewright/sm90/gated.hpp"
#include "tilewright/sm90/producer.hpp"

namespace tilewright::sm90 {

// Copies a box of a map of paired rows to shared memory. `pair`: the box's first pair.
__device__ __forceinline__ void copy_pairs(uint32_t destination, CUtensorMap const* map, uint32_t barrier, int byte,
                                           int pair, int matrix, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%3, %4, %4, %5, %6}], [%2], %7;" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(byte), "r"(0), "r"(pair), "r"(matrix), "l"(policy)
      : "memory");
}

// Multicasts a box of a map of paired rows, as `copy_box_to` does.
__device__ __forceinline__ void copy_pairs_to(uint16_t ctas, uint32_t destination, CUtensorMap const* map,
                                              uint32_t barrier, int byte, int pair, int matrix, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
      " [%0], [%1, {%3, %4, %4, %5, %6}], [%2], %8, %7;" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(byte), "r"(0), "r"(pair), "r"(matrix), "l"(policy), "h"(ctas)
      : "memory");
}

// `kPairedA`: the rows of A are in pairs; otherwise those of B are. Slices and tiles of these rows are multiples of
// kPairedRows.
template <class Layout, int Boxes, int Stages, bool kPairedA>
struct PairedProducer : Producer<Layout, Boxes, Stages> {
  using Base = Producer<Layout, Boxes, Stages>;

  __device__ __forceinline__ PairedProducer(uint32_t memory, Position<Stages> const& first, int stage_bytes)
      : Base{memory, first, stage_bytes} {}

  // As `Producer::run`.
  template <bool kShareA, bool kShareB>
  __device__ __forceinline__ void run(Load const& a, Load const& b, TileKRange const& x) {
    int byte = x.first * Boxes * 128;  // of k
#pragma unroll 1
    for (int i = 0; i < x.count; ++i) {
      uint32_t const full = Layout::full(this->shared, this->at.stage);
      bool const own_a = !kShareA || (this->count & (a.period - 1)) == a.phase;
      bool const own_b = !kShareB || (this->count & (b.period - 1)) == b.phase;
      barrier_wait(Layout::empty(this->shared, this->at.stage), this->at.phase ^ 1);
      if (this->loads) {
        barrier_expect(full, this->bytes);
      }
      if (own_a && this->loads) {
        issue<kPairedA, kShareA>(a, Layout::a(this->shared, this->at.stage), Layout::kBoxA, full, byte, x.a_row,
                                 x.a_matrix);
      }
      if (own_b && this->loads) {
        issue<!kPairedA, kShareB>(b, Layout::b(this->shared, this->at.stage), Layout::kBoxB, full, byte, x.b_row,
                                  x.b_matrix);
      }
      byte += Boxes * 128;
      if constexpr (kShareA || kShareB) {
        this->count = (this->count + 1) & (kMostCtas - 1);
      }
      this->at.next();
    }
  }

  // Loads a k range, with the multicast that the cluster's shape needs. Called by the whole warp.
  __device__ __forceinline__ void run(ClusterShape const& cluster, OperandLoads const& loads, TileKRange const& x) {
    if (cluster.n > 1 && cluster.m > 1) {
      run<true, true>(loads.a, loads.b, x);
    } else if (cluster.n > 1) {
      run<true, false>(loads.a, loads.b, x);
    } else if (cluster.m > 1) {
      run<false, true>(loads.a, loads.b, x);
    } else {
      run<false, false>(loads.a, loads.b, x);
    }
  }

 private:
  template <bool kPaired, bool kShare>
  static __device__ __forceinline__ void issue(Load const& load, uint32_t stage, int box_bytes, uint32_t full, int byte,
                                               int row, int matrix) {
    int const first = row + load.row;
#pragma unroll
    for (int box = 0; box < Boxes; ++box) {
      uint32_t const to = stage + box * box_bytes + load.offset;
      int const at = byte + box * 128;
      if constexpr (kPaired && kShare) {
        copy_pairs_to(load.sharers, to, load.map, full, at, first / kPairedRows, matrix, load.policy);
      } else if constexpr (kPaired) {
        copy_pairs(to, load.map, full, at, first / kPairedRows, matrix, load.policy);
      } else if constexpr (kShare) {
        copy_box_to(load.sharers, to, load.map, full, at, first, matrix, load.policy);
      } else {
        copy_box(to, load.map, full, at, first, matrix, load.policy);
      }
    }
  }
};

}  // namespace tilewright::sm90
