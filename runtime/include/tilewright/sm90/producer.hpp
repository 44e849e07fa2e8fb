// The loop of the warp that loads. It limits the speed of small tiles first, so it does nothing but wait for a free
// stage, announce the bytes that will arrive, and issue the TMA loads of both operands.
#pragma once

#include <cstdint>

#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

// What this CTA loads of one operand.
struct Load {
  CUtensorMap const* map;
  uint64_t policy;
  uint32_t offset;    // bytes in a box to this CTA's slice
  int row;            // the slice's first row in the tile; of an MN-major operand, its first k in a box
  int period, phase;  // this CTA loads the k tiles whose number modulo `period` is `phase`
  uint16_t sharers;   // CTAs that receive it, as bits by rank

  __device__ __forceinline__ Load(CUtensorMap const* tensor_map, uint64_t cache_policy, Slices const& slices, int slice,
                                  uint16_t ctas)
      : map(tensor_map),
        policy(cache_policy),
        offset(slices.period == 1 ? slice * slices.rows * 128 : 0),
        row(slices.period == 1 ? slice * slices.rows : 0),
        period(slices.period),
        phase(slices.period == 1 ? 0 : slice),
        sharers(ctas) {}
};

// What the CTA at `place` loads of both operands. `Params` has the fields of ProductParams and ProductMaps that are
// read here.
struct OperandLoads {
  Load a, b;

  template <class Params>
  __device__ __forceinline__ OperandLoads(Params const& params, ClusterPlace const& place)
      : a(&params.a, params.policy_a, params.slices_a, place.n, place.sharers_of_a(params.cluster)),
        b(&params.b, params.policy_b, params.slices_b, place.m, place.sharers_of_b(params.cluster)) {}
};

// The k range of a tile: k tiles `first` to `first + count - 1` of the tile whose rows begin at `a_row` and `b_row`.
struct TileKRange {
  int first, count;
  int a_row, b_row, a_matrix, b_matrix;
};

// `BoxesMnA`, `BoxesMnB`: how many boxes of 64 rows a tile of an MN-major operand has; 0 for a K-major operand.
template <class Layout, int Boxes, int Stages, int BoxesMnA = 0, int BoxesMnB = 0>
struct Producer {
  uint32_t shared;
  Position<Stages> at{};
  int bytes = Layout::kStageA + Layout::kStageB;  // of both operands that arrive in a stage
  int count = 0;                                  // of k tiles so far, modulo kMostCtas
  bool loads = elect_one();                       // whether this thread issues the loads

  // Loads a k range. Called by the whole warp, of which one thread issues the copies. All other code is the same for
  // every thread. Where ptxas cannot see that, it makes each copy a loop over the threads whose operands might differ,
  // and a stage of a cluster takes 240 clocks more.
  template <bool kShareA, bool kShareB>
  __device__ __forceinline__ void run(Load const& a, Load const& b, TileKRange const& x) {
    int byte = x.first * Boxes * 128;  // of k
#pragma unroll 1
    for (int i = 0; i < x.count; ++i) {
      uint32_t const full = Layout::full(shared, at.stage);
      bool const own_a = !kShareA || (count & (a.period - 1)) == a.phase;
      bool const own_b = !kShareB || (count & (b.period - 1)) == b.phase;
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
        count = (count + 1) & (kMostCtas - 1);  // periods are powers of two
      }
      at.next();
    }
  }

  // The same, with the multicast that the cluster's shape needs.
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

  // Waits until all CTAs that share the loads have read them. They arrive at this CTA's barriers then, so the CTA must
  // not end before.
  __device__ __forceinline__ void drain() {
#pragma unroll 1
    for (int i = 0; i < Stages; ++i) {
      barrier_wait(Layout::empty(shared, at.stage), at.phase ^ 1);
      at.next();
    }
  }

 private:
  // Issues the loads of one operand of a stage.
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
