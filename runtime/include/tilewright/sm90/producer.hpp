// The thread that loads. It is the first to limit small tiles, so it does nothing but wait for a stage, say what will
// come, and issue the boxes of both operands.
#pragma once

#include <cstdint>

#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

// One operand, as this CTA loads it.
struct Load {
  CUtensorMap const* map;
  uint64_t policy;
  uint32_t offset;  // in a box, of this CTA's slice
  int row;          // its first row in the tile; of an MN-major operand, its first k in a box
  int turns, turn;  // whole k tiles in turn: those where the count of k tiles, modulo `turns`, is `turn`
  uint16_t sharers;

  __device__ __forceinline__ Load(CUtensorMap const* tensor_map, uint64_t cache_policy, Slices const& slices, int part,
                                  uint16_t ctas)
      : map(tensor_map),
        policy(cache_policy),
        offset(slices.turns == 1 ? part * slices.rows * 128 : 0),
        row(slices.turns == 1 ? part * slices.rows : 0),
        turns(slices.turns),
        turn(slices.turns == 1 ? 0 : part),
        sharers(ctas) {}
};

// What a stage holds beside A and B: nothing.
struct NothingMore {
  static constexpr int kBytes = 0;
  __device__ __forceinline__ void operator()(int, uint32_t, int) const {}
};

// `BoxesMnA`, `BoxesMnB`: boxes of 64 rows in an MN-major operand's tile; 0 where it is K-major.
template <class Layout, int Boxes, int Stages, int BoxesMnA = 0, int BoxesMnB = 0>
struct Producer {
  uint32_t shared;
  Position<Stages> at{};
  int bytes = Layout::kStageA + Layout::kStageB;  // of both operands, that arrive in a stage
  int count = 0;                                  // of k tiles, modulo the turns

  // Loads k tiles `first` to `first + tiles` of the tile whose rows begin at a_row and b_row. `more` loads what else a
  // stage holds, told the stage, its barrier and the k tile.
  template <bool kShareA, bool kShareB, class More = NothingMore>
  __device__ __forceinline__ void run(Load const& a, Load const& b, int first, int tiles, int a_row, int b_row,
                                      int a_matrix, int b_matrix, More const& more = {}) {
    int byte = first * Boxes * 128;  // of k
    auto const load = [&](int i) {
      uint32_t const full = Layout::full(shared, at.stage);
      barrier_wait(Layout::empty(shared, at.stage), at.phase ^ 1);
      barrier_expect(full, bytes + More::kBytes);
      issue<kShareA, BoxesMnA>(a, Layout::a(shared, at.stage), Layout::kBoxA, full, byte, a_row, a_matrix);
      issue<kShareB, BoxesMnB>(b, Layout::b(shared, at.stage), Layout::kBoxB, full, byte, b_row, b_matrix);
      more(at.stage, full, first + i);
      byte += Boxes * 128;
      if constexpr (kShareA || kShareB) {
        count = (count + 1) & (kMostCtas - 1);  // turns are powers of two
      }
      at.next();
    };
    if constexpr (More::kBytes == 0) {
      for (int i = 0; i < tiles; ++i) {
        load(i);
      }
    } else {
#pragma unroll 1  // more would take registers from what says which tile is next
      for (int i = 0; i < tiles; ++i) {
        load(i);
      }
    }
  }

  // The same, of what the CTAs of the cluster share.
  template <class More = NothingMore>
  __device__ __forceinline__ void run(ClusterShape const& cluster, Load const& a, Load const& b, int first, int tiles,
                                      int a_row, int b_row, int a_matrix, int b_matrix, More const& more = {}) {
    if (cluster.n > 1 && cluster.m > 1) {
      run<true, true>(a, b, first, tiles, a_row, b_row, a_matrix, b_matrix, more);
    } else if (cluster.n > 1) {
      run<true, false>(a, b, first, tiles, a_row, b_row, a_matrix, b_matrix, more);
    } else if (cluster.m > 1) {
      run<false, true>(a, b, first, tiles, a_row, b_row, a_matrix, b_matrix, more);
    } else {
      run<false, false>(a, b, first, tiles, a_row, b_row, a_matrix, b_matrix, more);
    }
  }

 private:
  template <bool kShare, int BoxesMn>
  __device__ __forceinline__ void issue(Load const& load, uint32_t stage, int box_bytes, uint32_t full, int byte,
                                        int row, int matrix) {
    if constexpr (kShare) {
      if ((count & (load.turns - 1)) != load.turn) {
        return;
      }
    }
#pragma unroll
    for (int box = 0; box < Boxes; ++box) {
      uint32_t const to = stage + box * box_bytes + load.offset;
      if constexpr (BoxesMn == 0) {
        copy<kShare>(load, to, full, byte + box * 128, row + load.row, matrix);
      } else {
#pragma unroll
        for (int rows = 0; rows < BoxesMn; ++rows) {  // elements are of 2 bytes: 64 of k to a box
          copy<kShare>(load, to + rows * 8192, full, row * 2 + rows * 128, byte / 2 + box * 64 + load.row, matrix);
        }
      }
    }
  }

  template <bool kShare>
  static __device__ __forceinline__ void copy(Load const& load, uint32_t to, uint32_t full, int byte, int row,
                                              int matrix) {
    if constexpr (kShare) {
      copy_box_to(load.sharers, to, load.map, full, byte, row, matrix, load.policy);
    } else {
      copy_box(to, load.map, full, byte, row, matrix, load.policy);
    }
  }
};

}  // namespace tilewright::sm90
