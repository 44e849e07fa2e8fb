// The epilogue that goes through shared memory: where the CTAs of a cluster split k, and where D = sum + C has 16 bits.
#pragma once

#include <cstdint>

#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::grouped_gemm {

// `Kernel` is kernel.hpp's. The loop over subtiles is not unrolled: their sums come from memory, not from registers
// that must be known at compile time.
template <class Kernel>
struct ReducedStore {
  using Params = typename Kernel::Params;
  using ElementD = typename Kernel::ElementD;
  using Reduction = typename Kernel::ClusterReduction;
  using Store = typename Kernel::Store;
  // `Store` for one subtile.
  using StoreOne = sm90::Epilogue<ElementD, 1, Store::kColumns, Kernel::kSwapped, sm90::Activation::kNone, 1,
                                  Store::kColumns, Kernel::kSwapped || ElementD::kBytes == 2>;
  static constexpr int kCount = Store::kColumnGroups * 4;  // of a thread in a subtile
  static constexpr int kAllConsumers = 4;                  // a named barrier; 1 to 3 are the epilogues'

  // Adds up the sums of the CTAs that split k, and stores D, each CTA some of the subtiles (sm90/cluster_reduction.hpp
  // has the steps). The warpgroup's sums begin at (row, column) of the kernel's own plane.
  template <class RowFates>
  static __device__ __forceinline__ void run(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                             int warpgroup, int row, int column, int matrix, RowFates const& rows,
                                             float const (&sums)[Kernel::kRows][Kernel::kColumns / 2]) {
    sm90::ClusterShape const& cluster = params.cluster;
    StoreOne store(params.epilogue, &params.d, shared + Kernel::Layout::kStoresAt, warpgroup);
    sm90::named_barrier_sync(kAllConsumers, Kernel::kConsumers * 128);  // all products are done: the stages are free
    Reduction::store_sums(shared, sums);
    sm90::cluster_barrier();
#pragma unroll 1
    for (int subtile = place.split; subtile < Kernel::kRows * Store::kSubtiles; subtile += cluster.splits) {
      int const first_row = row + subtile / Store::kSubtiles * 64;
      int const first_column = column + subtile % Store::kSubtiles * Store::kColumns;
      float values[1][kCount];
      Reduction::template reduce<1, Store::kColumnGroups>(shared, subtile, cluster.splits, cluster, place, values);
      if constexpr (Store::kBoxes) {
        add_c(params.epilogue, values[0], first_row, first_column, matrix);
      }
      store.store_rows(values, first_row, first_column, matrix, rows);
    }
    sm90::fence_async_proxy();  // TMA writes the stages next
    sm90::cluster_barrier();
  }

 private:
  // Adds C, which has D's type of 16 bits. `store_rows` adds a C of F32 itself.
  static __device__ __forceinline__ void add_c(sm90::EpilogueParams const& epilogue, float (&values)[kCount], int row,
                                               int column, int matrix) {
    if (epilogue.c == nullptr) {
      return;
    }
    using Subtile = typename Store::Subtile;
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    int const own_row = row + warp * 16 + lane / 4, own_column = column + lane % 4 * 2;
    uint16_t const* const c = static_cast<uint16_t const*>(epilogue.c) + matrix * epilogue.batch_stride_c;
    uint16_t bits[kCount];  // all loads are under way before the first is used
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      int const m = Subtile::row_of(own_row, own_column, i / 4, i % 4);
      int const n = Subtile::column_of(own_row, own_column, i / 4, i % 4);
      bits[i] = 0;
      if (m < epilogue.m && n < epilogue.n) {
        bits[i] = c[m * epilogue.ld_c + n];
      }
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      values[i] += ElementD::to_float(bits[i]);
    }
  }
};

}  // namespace tilewright::grouped_gemm
