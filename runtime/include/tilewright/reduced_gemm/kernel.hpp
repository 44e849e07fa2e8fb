// Products that are summed over a batch, for sm_90a: D[m,n] = alpha * sum over the batch of A[m,k] B[n,k]^T + beta C.
//
// D is small and the operands are long, so many CTAs compute one tile of D. The k tiles of all matrices are dealt to
// them: each has a part, and k tiles that lie side by side in memory belong to different parts, so that they are loaded
// at the same time. CTAs of a cluster share loads by multicast.
//
// | kernel | what it does |
// |---|---|
// | Kernel | each CTA stores the sums of its part to the workspace, as its threads hold them |
// | Combine | adds the parts up in their order, so that the bits are the same every time, and stores D |
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
  int blocks, blocks_down;  // of D, and of a column of D; a block has a tile for each CTA of a cluster
  int tiles_down;           // tiles of a column of D, in whole blocks
  int k_tiles;              // of a matrix
  int k_tiles_per_part;     // the first `larger_parts` parts have one more
  int larger_parts;
  int next_matrix, next_k;        // steps from a k tile of a part to its next one: matrices and k tiles
  bool broadcast_a, broadcast_b;  // one matrix serves the whole batch
  sm90::Slices slices_a, slices_b;
  uint64_t policy_a, policy_b;
  float4* sums;  // of the parts
  CUtensorMap a, b;
  int m, n;  // of D
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

  // Prologue, one thread.
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
      int matrix = part.number / params.k_tiles, k = part.number % params.k_tiles;
#pragma unroll 1
      for (int tiles = part.tiles; tiles > 0; --tiles) {
        producer.run(cluster, loads,
                     {k, 1, part.tile_row * TileM, part.tile_column * TileN, params.broadcast_a ? 0 : matrix,
                      params.broadcast_b ? 0 : matrix});
        matrix += params.next_matrix, k += params.next_k;
        if (k >= params.k_tiles) {
          k -= params.k_tiles;
          ++matrix;
        }
      }
      if (cluster.size() > 1) {
        producer.drain();
      }
    }
  }

  // Multiply: a consumer warpgroup, which stores its sums to the workspace.
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
    int const row = part.tile_row * TileM + (Warpgroups::kDown == 1 ? 0 : warpgroup * kRows * 64);
    int const column = part.tile_column * TileN + (Warpgroups::kAcross == 1 ? 0 : warpgroup * kColumns);
    if (row < params.m && column < params.n) {
      TileSums::store(params.sums + tile * TileSums::kCount, threadIdx.x, sums);
    }
  }

 private:
  // What a CTA computes: some k tiles of one tile. CTAs with the same k tiles lie side by side in the grid, so that
  // their tiles share rows of A and B in L2.
  struct Part {
    int number, tiles, tile_row, tile_column;

    __device__ __forceinline__ Part(Params const& params, sm90::ClusterPlace const& place) {
      int const cluster = sm90::cluster_index(), block = cluster % params.blocks;
      number = cluster / params.blocks;
      tiles = params.k_tiles_per_part + (number < params.larger_parts ? 1 : 0);
      tile_row = block % params.blocks_down * params.cluster.m + place.m;
      tile_column = block / params.blocks_down * params.cluster.n + place.n;
    }
  };
};

// The body of the second kernel, which adds the parts up. The warps of a CTA add up some of the parts each,
// for the same 32 float4s, because a thread that loaded all parts would wait for memory again and again. The host
// chooses how many warps a CTA has (`warps_for`).
template <class Kernel>
struct Combine {
  static constexpr int kFewWarps = 8, kWarps = 16, kThreads = kWarps * 32;
  // How many parts a warp loads together: as many as it has of 132 parts with 16 warps, or of 66 parts with 8.
  static constexpr int kAtOnce = 9;
  using TileSums = typename Kernel::TileSums;
  static constexpr int kBlocksOfTile = TileSums::kCount / 32;

  // How many warps a CTA has.
  static constexpr int warps_for(int parts) { return parts > kFewWarps * kAtOnce ? kWarps : kFewWarps; }

  __device__ __forceinline__ void operator()(CombineParams const& params) const {
    __shared__ float4 shares[kWarps][32];
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    int const index = blockIdx.x * 32 + lane;  // of a float4 among those of a part
    int64_t const step = int64_t(params.tiles) * TileSums::kCount;
    int const parts_per_warp = (params.parts + warps - 1) / warps;
    Elements const elements(params, index);
    int const first = warp * parts_per_warp;
    int count = elements.any(params) ? min(params.parts - first, parts_per_warp) : 0;
    float4 const* from = params.sums + (first * step + index);
    if (warp == 0) {
      elements.request(params);  // C, which L2 may lack; the parts are in L2, because they were just written
    }
    if constexpr (Kernel::kPdl) {
      sm90::wait_for_previous_kernel();
      sm90::allow_next_kernel();
    }
    float addends[4];
    if (warp == 0) {
      elements.load(params, addends);
    }
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
    for (; count > 0; count -= kAtOnce) {
      float4 loaded[kAtOnce];
      uint32_t bits = 0;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i, from += step) {
        loaded[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (i < count) {
          loaded[i] = __ldcg(from);
        }
      }
#pragma unroll
      for (float4 const& values : loaded) {
        bits |= __float_as_uint(values.x);
      }
      // Waits for all loads. Otherwise ptxas would save registers: it would add a part up before it loads the third one
      // after it.
      float const zero = __uint_as_float(sm90::zero_after(bits));
      add(sum, make_float4(zero, zero, zero, zero));
#pragma unroll
      for (float4 const& values : loaded) {
        add(sum, values);
      }
    }
    shares[warp][lane] = sum;
    __syncthreads();
    if (warp != 0) {
      return;
    }
    sum = shares[0][lane];
#pragma unroll
    for (int source = 1; source < kFewWarps; ++source) {
      add(sum, shares[source][lane]);
    }
    if (warps > kFewWarps) {
#pragma unroll
      for (int source = kFewWarps; source < kWarps; ++source) {
        add(sum, shares[source][lane]);
      }
    }
    elements.store(params, sum, addends);
  }

 private:
  static __device__ __forceinline__ void add(float4& sum, float4 const& addend) {
    sum.x += addend.x, sum.y += addend.y, sum.z += addend.z, sum.w += addend.w;
  }

  // The elements of D of a float4: four accumulators of a thread of the first kernel, two neighbours in a row, and the
  // two that lie 8 rows below.
  struct Elements {
    int row, column;

    __device__ __forceinline__ Elements(CombineParams const& params, int index) {
      int const tile = index / TileSums::kCount, within = index % TileSums::kCount;
      row = tile % params.tiles_down * Kernel::TileM + TileSums::row(within);
      column = tile / params.tiles_down * Kernel::TileN + TileSums::column(within);
    }

    // Whether any of them lies in D.
    __device__ __forceinline__ bool any(CombineParams const& params) const {
      return row < params.m && column < params.n;
    }

    // Asks L2 for their C.
    __device__ __forceinline__ void request(CombineParams const& params) const {
      if (params.c != nullptr) {
#pragma unroll
        for (int below = 0; below <= 8; below += 8) {
          if (row + below < params.m && column < params.n) {
            int64_t const at = (row + below) * params.ld_c + column;
            sm90::prefetch_line(static_cast<char const*>(params.c) + at * (params.f32 ? 4 : Kernel::Element::kBytes));
          }
        }
      }
    }

    // Loads their C, all at once. Sets zeros where there is none.
    __device__ __forceinline__ void load(CombineParams const& params, float (&addends)[4]) const {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        bool const adds = params.c != nullptr && inside(params, i);
        sm90::Addend const type = params.f32 ? sm90::F32::kAddend : Kernel::Element::kAddend;
        addends[i] = adds ? sm90::load(type, params.c, (row + i / 2 * 8) * params.ld_c + column + i % 2) : 0.0f;
      }
    }

    __device__ __forceinline__ void store(CombineParams const& params, float4 const& sum,
                                          float const (&addends)[4]) const {
      float const values[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (inside(params, i)) {
          float value = params.alpha * values[i];
          if (params.c != nullptr) {
            value += params.beta * addends[i];
          }
          int64_t const at = (row + i / 2 * 8) * params.ld_d + column + i % 2;
          if (params.f32) {
            sm90::F32::store(params.d, at, value);
          } else {
            Kernel::Element::store(params.d, at, value);
          }
        }
      }
    }

   private:
    // Whether element `i` is one of D.
    __device__ __forceinline__ bool inside(CombineParams const& params, int i) const {
      return row + i / 2 * 8 < params.m && column + i % 2 < params.n;
    }
  };
};

}  // namespace tilewright::reduced_gemm
