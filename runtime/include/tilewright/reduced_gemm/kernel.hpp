// Products that are summed over a batch, for sm_90a: D[m,n] = alpha * sum over the batch of A[m,k] B[n,k]^T + beta C.
//
// D is small and the operands are long. The k tiles of all matrices, one after the other, are divided into parts, one
// for each CTA of a tile. CTAs of a cluster share loads by multicast. A CTA stores the sums of its part to the
// workspace, as its threads hold them. A second kernel adds the parts up in their order, so that the bits are the same
// every time.
#pragma once

#include <cstdint>

#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/elements.hpp"
#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/parts.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/producer.hpp"
#include "tilewright/sm90/product.hpp"

namespace tilewright::reduced_gemm {

// Fields that are read first come first (sm90/product_params.hpp).
struct Params {
  sm90::ClusterShape cluster;
  int blocks, blocks_down;  // in D, and in a column of D; a block has one tile for each CTA of a cluster
  int tiles_down;           // of a column of D, in whole blocks
  int k_tiles;              // of a matrix
  int k_tiles_per_part;     // the first `larger_parts` parts have one more
  int larger_parts;
  bool broadcast_a, broadcast_b;  // one matrix for every one of the batch
  sm90::Slices slices_a, slices_b;
  uint64_t policy_a, policy_b;
  float4* sums;  // of the parts
  CUtensorMap a, b;
};

struct CombineParams {
  float4 const* sums;
  void* d;
  void const* c;  // or null
  int64_t ld_c, ld_d;
  int m, n;
  int tiles, tiles_down;
  int parts;
  float alpha, beta;
  bool f32;  // D and C, else of the operands' type
};

template <class Element_, int TileM_, int TileN_, int Stages_, bool kPdl_>
struct Kernel {
  using Element = Element_;
  static constexpr int TileM = TileM_, TileN = TileN_, Stages = Stages_;
  static constexpr bool kPdl = kPdl_;
  using Params = reduced_gemm::Params;
  using Warpgroups = sm90::Cooperative<TileM, TileN, 2>;
  static constexpr int kConsumers = Warpgroups::kConsumers, kThreads = Warpgroups::kThreads;
  static constexpr int kRows = Warpgroups::kRows, kColumns = Warpgroups::kColumns;  // of a warpgroup
  static constexpr int kTileBytesK = 128;

  using Layout = sm90::Layout<TileM, TileN, 1, Stages, 0>;
  using Mainloop = sm90::Mainloop<Element, Element, sm90::PlainSum, Layout, kRows, kColumns, 1, Stages>;
  using Producer = sm90::Producer<Layout, 1, Stages>;
  using TileSums = sm90::TileSums<Warpgroups>;
  static constexpr int kSharedBytes = Layout::kBytes;
  static_assert(kSharedBytes <= 227 * 1024, "the stages exceed the shared memory of sm_90");

  static constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_product<Kernel>(params, memory);
  }

  // Prologue.
  static __device__ __forceinline__ void init_barriers(Params const& params, uint32_t shared) {
    sm90::start_stages<Layout, Stages>(params.cluster, shared, 1, kConsumers);
  }

  static __device__ __forceinline__ void prefetch_maps(Params const& params) {
    sm90::prefetch_map(&params.a);
    sm90::prefetch_map(&params.b);
  }

  // Load: the producer's warps, of which one loads.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                              bool loading_warp) {
    sm90::ClusterShape const& cluster = params.cluster;
    sm90::OperandLoads const loads(params, place);
    Part const part(params, place);
    Producer producer{shared};
    sm90::enter<kPdl>(cluster);
    if (loading_warp) {
      int matrix = part.first / params.k_tiles, k = part.first % params.k_tiles;
      for (int tiles = part.tiles; tiles > 0;) {
        int const taken = min(tiles, params.k_tiles - k);
        producer.run(cluster, loads,
                     {k, taken, part.tile_row * TileM, part.tile_column * TileN, params.broadcast_a ? 0 : matrix,
                      params.broadcast_b ? 0 : matrix});
        tiles -= taken;
        ++matrix;
        k = 0;
      }
      if (cluster.size() > 1) {
        producer.drain();
      }
    }
  }

  // Multiply: a consumer warpgroup. Its epilogue stores the sums to the workspace.
  static __device__ __forceinline__ void multiply(Params const& params, uint32_t shared,
                                                  sm90::ClusterPlace const& place, int warpgroup) {
    sm90::Release const release(Layout::empty(shared, 0), params.cluster.size(), place.sharers(params.cluster),
                                threadIdx.x % 128);
    Mainloop mainloop{shared, Warpgroups::kDown == 1 ? 0 : warpgroup * kRows * 64,
                      Warpgroups::kAcross == 1 ? 0 : warpgroup * kColumns, release};
    Part const part(params, place);
    sm90::enter<kPdl>(params.cluster);  // the previous kernel may still read the workspace
    float sums[kRows][kColumns / 2];
    mainloop.run(part.tiles, sums, [] {});
    int64_t const tile = int64_t(part.number) * params.blocks * params.cluster.size() + part.tile_row +
                         part.tile_column * params.tiles_down;
    TileSums::store(params.sums + tile * TileSums::kCount, threadIdx.x, sums);
  }

 private:
  // What a CTA computes: some k tiles of one tile. CTAs with the same k tiles lie side by side in the grid, so that
  // their tiles share rows of A and B in L2.
  struct Part {
    int number, first, tiles, tile_row, tile_column;

    __device__ __forceinline__ Part(Params const& params, sm90::ClusterPlace const& place) {
      int const cluster = sm90::cluster_index(), block = cluster % params.blocks;
      number = cluster / params.blocks;
      first = number * params.k_tiles_per_part + min(number, params.larger_parts);
      tiles = params.k_tiles_per_part + (number < params.larger_parts ? 1 : 0);
      tile_row = block % params.blocks_down * params.cluster.m + place.m;
      tile_column = block / params.blocks_down * params.cluster.n + place.n;
    }
  };
};

// Adds the parts up. Eight warps of a thread block add up some of the parts each, for the same 32 float4s: one thread
// that loaded all parts would wait for memory once for each.
template <class Kernel>
struct Combine {
  static constexpr int kWarps = 8, kThreads = kWarps * 32;
  using Warpgroups = typename Kernel::Warpgroups;
  using TileSums = typename Kernel::TileSums;
  static constexpr int kBlocksOfTile = TileSums::kCount / 32;

  __device__ __forceinline__ void operator()(CombineParams const& params) const {
    __shared__ float4 shares[kWarps][32];
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int const index = blockIdx.x * 32 + lane;  // of a float4 among those of a part
    int64_t const step = int64_t(params.tiles) * TileSums::kCount;
    int const parts_per_warp = (params.parts + kWarps - 1) / kWarps;
    int const first = warp * parts_per_warp, end = min(params.parts, first + parts_per_warp);
    if constexpr (Kernel::kPdl) {
      sm90::wait_for_previous_kernel();
      sm90::allow_next_kernel();
    }
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 8
    for (int part = first; part < end; ++part) {
      add(sum, params.sums[part * step + index]);
    }
    shares[warp][lane] = sum;
    __syncthreads();
    if (warp != 0) {
      return;
    }
    sum = shares[0][lane];
#pragma unroll
    for (int source = 1; source < kWarps; ++source) {
      add(sum, shares[source][lane]);
    }
    store(params, index, sum);
  }

 private:
  static __device__ __forceinline__ void add(float4& sum, float4 const& addend) {
    sum.x += addend.x, sum.y += addend.y, sum.z += addend.z, sum.w += addend.w;
  }

  // Stores four accumulators of a thread of the first kernel: two neighbours of a row, and the two 8 rows below.
  static __device__ __forceinline__ void store(CombineParams const& params, int index, float4 const& sum) {
    int const tile = index / TileSums::kCount, within = index % TileSums::kCount;
    int const number = within / TileSums::kThreads, thread = within % TileSums::kThreads;
    int const warpgroup = thread / 128, warp = thread / 32 % 4, lane = thread % 32;
    int const r = number / TileSums::kColumnGroups, column_group = number % TileSums::kColumnGroups;
    int const row = tile % params.tiles_down * Kernel::TileM +
                    (Warpgroups::kDown == 1 ? 0 : warpgroup * Warpgroups::kRows * 64) + r * 64 + warp * 16 + lane / 4;
    int const column = tile / params.tiles_down * Kernel::TileN +
                       (Warpgroups::kAcross == 1 ? 0 : warpgroup * Warpgroups::kColumns) + column_group * 8 +
                       lane % 4 * 2;
    float const values[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (params.f32) {
        store_element<sm90::F32>(params, row + i / 2 * 8, column + i % 2, values[i]);
      } else {
        store_element<typename Kernel::Element>(params, row + i / 2 * 8, column + i % 2, values[i]);
      }
    }
  }

  template <class Element>
  static __device__ __forceinline__ void store_element(CombineParams const& params, int row, int column, float value) {
    if (row < params.m && column < params.n) {
      value *= params.alpha;
      if (params.c != nullptr) {
        value += params.beta * sm90::load(Element::kAddend, params.c, row * params.ld_c + column);
      }
      Element::store(params.d, row * params.ld_d + column, value);
    }
  }
};

}  // namespace tilewright::reduced_gemm
