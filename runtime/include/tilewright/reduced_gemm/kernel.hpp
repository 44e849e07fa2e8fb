// Products that are added up over a batch, for sm_90a: D[m,n] = alpha * sum over the batch of A[m,k] B[n,k]^T + beta C.
//
// D is small and what is read is long: the k tiles of all matrices, one after the other, are cut into parts, one for
// each CTA of a tile. CTAs of a cluster share loads by multicast. A part's sums go to the workspace as the threads hold
// them; a second kernel adds the parts up in their order, so that the same bits come out every time.
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

// What is asked for first lies in front (sm90/product_params.hpp).
struct Params {
  sm90::ClusterShape cluster;
  int blocks, blocks_down;  // of D, of as many tiles as a cluster has; of a column of D
  int tiles_down;           // of a column of D, in whole blocks
  int k_tiles;              // of a matrix
  int each, more;           // k tiles of a part, and how many of the first parts have one more
  bool one_a, one_b;        // one matrix for every one of the batch
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

  static __device__ __forceinline__ void start(Params const& params, uint32_t shared) {
    sm90::start_stages<Layout, Stages>(params.cluster, shared, 1, kConsumers);
  }

  static __device__ __forceinline__ void ask_for_maps(Params const& params) {
    sm90::prefetch_map(&params.a);
    sm90::prefetch_map(&params.b);
  }

  static __device__ __forceinline__ void produce(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
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
                     {k, taken, part.tile_row * TileM, part.tile_column * TileN, params.one_a ? 0 : matrix,
                      params.one_b ? 0 : matrix});
        tiles -= taken;
        ++matrix;
        k = 0;
      }
      if (cluster.size() > 1) {
        producer.drain();
      }
    }
  }

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
    TileSums::leave(params.sums + tile * TileSums::kCount, threadIdx.x, sums);
  }

 private:
  // What a CTA computes: some k tiles of one tile. The parts of one k lie side by side in the grid: their tiles share
  // rows of A and B in L2.
  struct Part {
    int number, first, tiles, tile_row, tile_column;

    __device__ __forceinline__ Part(Params const& params, sm90::ClusterPlace const& place) {
      int const cluster = sm90::cluster_index(), block = cluster % params.blocks;
      number = cluster / params.blocks;
      first = number * params.each + min(number, params.more);
      tiles = params.each + (number < params.more ? 1 : 0);
      tile_row = block % params.blocks_down * params.cluster.m + place.m;
      tile_column = block / params.blocks_down * params.cluster.n + place.n;
    }
  };
};

// Adds the parts up. Eight warps of a thread block take a share of the parts each, of the same 32 float4s, because a
// thread that read all of them would wait for memory as often.
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
    int const each = (params.parts + kWarps - 1) / kWarps;
    int const first = warp * each, end = min(params.parts, first + each);
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
    for (int other = 1; other < kWarps; ++other) {
      add(sum, shares[other][lane]);
    }
    store(params, index, sum);
  }

 private:
  static __device__ __forceinline__ void add(float4& sum, float4 const& more) {
    sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
  }

  // The four accumulators of a thread of the first kernel: two neighbours of a row, and those 8 rows below.
  static __device__ __forceinline__ void store(CombineParams const& params, int index, float4 const& sum) {
    int const tile = index / TileSums::kCount, within = index % TileSums::kCount;
    int const number = within / TileSums::kThreads, thread = within % TileSums::kThreads;
    int const warpgroup = thread / 128, warp = thread / 32 % 4, lane = thread % 32;
    int const r = number / TileSums::kQuads, quad = number % TileSums::kQuads;
    int const row = tile % params.tiles_down * Kernel::TileM +
                    (Warpgroups::kDown == 1 ? 0 : warpgroup * Warpgroups::kRows * 64) + r * 64 + warp * 16 + lane / 4;
    int const column = tile / params.tiles_down * Kernel::TileN +
                       (Warpgroups::kAcross == 1 ? 0 : warpgroup * Warpgroups::kColumns) + quad * 8 + lane % 4 * 2;
    float const values[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (params.f32) {
        store_one<sm90::F32>(params, row + i / 2 * 8, column + i % 2, values[i]);
      } else {
        store_one<typename Kernel::Element>(params, row + i / 2 * 8, column + i % 2, values[i]);
      }
    }
  }

  template <class Element>
  static __device__ __forceinline__ void store_one(CombineParams const& params, int row, int column, float value) {
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
