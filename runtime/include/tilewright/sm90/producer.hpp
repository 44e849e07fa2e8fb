// The warp that loads. It is the first to limit small tiles, so it does nothing but wait for a stage, say what will
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

// Both operands, as the CTA at `place` loads them. `Params` has the fields of ProductParams and ProductMaps that say
// so.
struct OperandLoads {
  Load a, b;

  template <class Params>
  __device__ __forceinline__ OperandLoads(Params const& params, ClusterPlace const& place)
      : a(&params.a, params.policy_a, params.slices_a, place.n, place.sharers_of_a(params.cluster)),
        b(&params.b, params.policy_b, params.slices_b, place.m, place.sharers_of_b(params.cluster)) {}
};

// Which k tiles of which tile: `first` to `first + tiles` of the one whose rows begin at a_row and b_row.
struct Extract {
  int first, tiles;
  int a_row, b_row, a_matrix, b_matrix;
};

// `BoxesMnA`, `BoxesMnB`: boxes of 64 rows in an MN-major operand's tile; 0 where it is K-major.
template <class Layout, int Boxes, int Stages, int BoxesMnA = 0, int BoxesMnB = 0>
struct Producer {
  uint32_t shared;
  Position<Stages> at{};
  int bytes = Layout::kStageA + Layout::kStageB;  // of both operands, that arrive in a stage
  int count = 0;                                  // of k tiles, modulo the turns
  bool loads = elect_one();                       // the thread of the warp that does

  // Loads an extract. By the whole warp, whose threads differ in nothing but in which one loads: where ptxas cannot see
  // that, it makes a loop of each copy, over the threads whose operands might differ, and a stage of a cluster takes
  // 240 clocks more.
  template <bool kShareA, bool kShareB>
  __device__ __forceinline__ void run(Load const& a, Load const& b, Extract const& x) {
    int byte = x.first * Boxes * 128;  // of k
#pragma unroll 1
    for (int i = 0; i < x.tiles; ++i) {
      uint32_t const full = Layout::full(shared, at.stage);
      bool const own_a = !kShareA || (count & (a.turns - 1)) == a.turn;
      bool const own_b = !kShareB || (count & (b.turns - 1)) == b.turn;
      barrier_wait(Layout::empty(shared, at.stage), at.phase ^ 1);
      if (loads) {
        barrier_expect(full, bytes);
      }
      if (own_a && loads) {
        issue<kShareA, BoxesMnA>(a, Layout::a(shared, at.stage), Layout::kBoxA, full, byte, x.a_row, x.a_matrix);
      }
      if (own_b && loads) {
        issue<kShareB, BoxesMnB>(b, Layout::b(shared, at.stage), Layout::kBoxB, full, byte, x.b_row, x.b_matrix);
      }
      byte += Boxes * 128;
      if constexpr (kShareA || kShareB) {
        count = (count + 1) & (kMostCtas - 1);  // turns are powers of two
      }
      at.next();
    }
  }

  // The same, of what the CTAs of the cluster share.
  __device__ __forceinline__ void run(ClusterShape const& cluster, OperandLoads const& loads, Extract const& x) {
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

  // Waits until all that was loaded is read, in all CTAs that share it: till then they tell this CTA's barriers.
  __device__ __forceinline__ void drain() {
#pragma unroll 1
    for (int i = 0; i < Stages; ++i) {
      barrier_wait(Layout::empty(shared, at.stage), at.phase ^ 1);
      at.next();
    }
  }

 private:
  template <bool kShare, int BoxesMn>
  __device__ __forceinline__ void issue(Load const& load, uint32_t stage, int box_bytes, uint32_t full, int byte,
                                        int row, int matrix) {
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
