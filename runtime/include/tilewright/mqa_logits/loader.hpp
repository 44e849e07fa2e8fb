// The shared memory and the barriers of an `mqa_logits` thread block, and the warps that neither multiply nor reduce:
// they load queries and keys by TMA, and clean logits that no query looks at.
#pragma once

#include <cstdint>

#include "tilewright/mqa_logits/work.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::mqa_logits {

template <class Work>
struct Params {
  CUtensorMap q, weights, query_scales, keys, scales;
  Work work;
  Logits logits;
};

// The tiles of a ring that one of `Count` warps or warpgroups takes: every `Count`-th.
template <int Count, int Stages>
struct Share {
  int tile;  // counted from the current item's first; may lie in a later item
  sm90::Position<Stages> at{};

  __device__ __forceinline__ explicit Share(int first) : tile(first) { at.skip(first); }

  __device__ __forceinline__ void next() {
    tile += Count;
    at.stage += Count;
    if (at.stage >= Stages) {
      at.stage -= Stages, at.phase ^= 1;
    }
  }
};

// A tile has `Tile` keys and belongs to one of `Warpgroups` warpgroups. `Reduce` says how heads lie. In one more
// warpgroup, the first `Loaders` warps load and the last `Cleaners` warps clean.
template <class Work, class Product, class Reduce_, int Tile, int Stages, int Warpgroups, int Loaders, int Cleaners,
          class Element>
struct Loader {
  using Params = mqa_logits::Params<Work>;
  using Reduce = Reduce_;
  static constexpr int kTile = Tile, kQueryStages = 2, kLoaders = Loaders, kCleaners = Cleaners;
  static constexpr int kQueries = Reduce::kQueries, kColumns = Reduce::kColumns;

  // Shared memory, in this order: decoded queries; loaded queries and tiles of keys, in swizzled rows; weights and
  // scale factors; barriers.
  static constexpr int kRowBytes = Product::kRowBytes;
  static constexpr int kDecodedBytes = kColumns * Product::kDecodedBytes;
  static constexpr int kQueryBytes = kColumns * kRowBytes, kKeyBytes = kTile * kRowBytes;
  static constexpr int kSetBytes = kQueryBytes / Reduce::kSets;
  static constexpr int kWeightBytes = (kColumns * 4 + 127) / 128 * 128;  // TMA writes to multiples of 128
  static constexpr int kScaleBytes = kTile * 4;
  static constexpr int kQueriesAt = kQueryStages * kDecodedBytes;
  static constexpr int kKeysAt = kQueriesAt + kQueryStages * kQueryBytes;
  static constexpr int kWeightsAt = kKeysAt + Stages * kKeyBytes;
  static constexpr int kQueryScalesAt = kWeightsAt + kQueryStages * kWeightBytes;
  static constexpr int kScalesAt = kQueryScalesAt + Product::kQueryScales * kQueryStages * kWeightBytes;
  static constexpr int kBarriersAt = kScalesAt + Stages * kScaleBytes;
  static constexpr int kLoadedBytes = kBarriersAt + (kQueryStages + Stages) * 16;
  // A barrier distinguishes a phase from the next one only, so a warp that waits for a stage waits for each of its
  // tiles.
  static_assert(Stages % Warpgroups == 0 && Stages % Loaders == 0, "a stage is one warpgroup's, and one loader's");

  static __device__ __forceinline__ uint32_t full(uint32_t shared, int stage) {
    return shared + kBarriersAt + stage * 16;
  }
  static __device__ __forceinline__ uint32_t empty(uint32_t shared, int stage) { return full(shared, stage) + 8; }
  static __device__ __forceinline__ uint32_t full_queries(uint32_t shared, int stage) {
    return full(shared, Stages + stage);
  }
  static __device__ __forceinline__ uint32_t empty_queries(uint32_t shared, int stage) {
    return full_queries(shared, stage) + 8;
  }

  // Prologue, called by one warp.
  static __device__ __forceinline__ void start(Params const& params, uint32_t shared) {
    int const lane = threadIdx.x;
    if (lane == 0) {
      sm90::prefetch_map(&params.q);
      sm90::prefetch_map(&params.weights);
      if constexpr (Product::kQueryScales) {
        sm90::prefetch_map(&params.query_scales);
      }
      sm90::prefetch_map(&params.keys);
      sm90::prefetch_map(&params.scales);
    }
    if (lane < Stages + kQueryStages) {
      sm90::barrier_init(full(shared, lane), 1);
      // Every warp that reads a stage releases it: one warpgroup reads a tile of keys, all read queries.
      sm90::barrier_init(empty(shared, lane), lane < Stages ? 4 : 4 * Warpgroups);
    }
    sm90::fence_barrier_init();
    __syncwarp();
  }

  // Releases a stage. Called by each warp that has read it.
  static __device__ __forceinline__ void release(uint32_t barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      sm90::barrier_arrive(barrier);
    }
  }

  // Load: warp number `loader` of the `Loaders` warps.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, int loader) {
    sm90::Position<kQueryStages> queries{};
    Share<Loaders, Stages> share(loader);
    bool const loads = sm90::elect_one();
    params.work.template for_each<kQueries, kTile>(params.logits, [&](Item const& item) {
      if (loads && loader == 0) {
        load_queries(params, shared, item, queries);
      }
      __syncwarp();
      queries.next();
      if constexpr (Work::kPaged) {
        load_pages(params, shared, item, share, loads);
      } else {
        load_keys(params, shared, item, share, loads);
      }
      share.tile -= item.tiles;
    });
  }

  // Writes -infinity to logits that no query looks at. Called by `Cleaners` warps.
  static __device__ __forceinline__ void clean(Params const& params, int warp) {
    Logits const& logits = params.logits;
    constexpr int kThreadsThere = Cleaners * 32, kColumnsAtOnce = 64 * kThreadsThere;
    int const across = (logits.width + kColumnsAtOnce - 1) / kColumnsAtOnce;
    int const thread = warp * 32 + threadIdx.x % 32;
    for (int64_t unit = blockIdx.x; unit < int64_t{across} * logits.rows; unit += gridDim.x) {
      int const row = static_cast<int>(unit / across), column = static_cast<int>(unit % across) * kColumnsAtOnce;
      Range const range = params.work.range(logits, row);
      int const origin = params.work.origin(range), end = min(column + kColumnsAtOnce, logits.width);
      for (int j = column + thread; j < end; j += kThreadsThere) {
        if (j < range.start - origin || j >= range.end - origin) {
          Element::store(logits.out, row * logits.ld + j, -INFINITY);
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ void load_queries(Params const& params, uint32_t shared, Item const& item,
                                                      sm90::Position<kQueryStages> const& at) {
    uint32_t const barrier = full_queries(shared, at.stage);
    sm90::barrier_wait(empty_queries(shared, at.stage), at.phase ^ 1);
    sm90::barrier_expect(barrier, kQueryBytes + (1 + Product::kQueryScales) * kColumns * 4);
#pragma unroll
    for (int set = 0; set < Reduce::kSets; ++set) {
      sm90::copy_box(shared + kQueriesAt + at.stage * kQueryBytes + set * kSetBytes, &params.q, barrier, 0, 0,
                     item.query + set * Reduce::kSetQueries, 0, sm90::kKeepNormal);
    }
    if constexpr (Product::kQueryScales) {
      sm90::copy_box(shared + kQueryScalesAt + at.stage * kWeightBytes, &params.query_scales, barrier, 0, item.query, 0,
                     sm90::kKeepNormal);
    }
    sm90::copy_box(shared + kWeightsAt + at.stage * kWeightBytes, &params.weights, barrier, 0, item.query, 0,
                   sm90::kKeepNormal);
  }

  static __device__ __forceinline__ void load_keys(Params const& params, uint32_t shared, Item const& item,
                                                   Share<Loaders, Stages>& share, bool loads) {
    for (; share.tile < item.tiles; share.next()) {
      if (loads) {
        uint32_t const barrier = acquire(shared, share.at);
        int const key = item.key + share.tile * kTile;
        sm90::copy_box(shared + kKeysAt + share.at.stage * kKeyBytes, &params.keys, barrier, 0, key, 0,
                       sm90::kKeepNormal);
        sm90::copy_box(shared + kScalesAt + share.at.stage * kScaleBytes, &params.scales, barrier, key, 0, 0,
                       sm90::kKeepNormal);
      }
    }
    __syncwarp();
  }

  static __device__ __forceinline__ void load_pages(Params const& params, uint32_t shared, Item const& item,
                                                    Share<Loaders, Stages>& share, bool loads) {
    constexpr int kMaxPages = kTile / 32;  // of a tile
    int const page = params.work.page, pages_per_tile = kTile / page;
    int const first = item.key / page;
    Pages pages(params.work, item.table_row, first + share.tile * pages_per_tile);
    for (; share.tile < item.tiles; share.next()) {
      int const next = first + share.tile * pages_per_tile;
      int pages_of_tile[kMaxPages];
#pragma unroll
      for (int i = 0; i < kMaxPages; ++i) {
        pages_of_tile[i] = i == 0 || i < pages_per_tile ? pages.at(next + i) : 0;
      }
      if (loads) {
        uint32_t const barrier = acquire(shared, share.at);
#pragma unroll
        for (int i = 0; i < kMaxPages; ++i) {
          if (i == 0 || i < pages_per_tile) {
            load_page(params, shared, share.at.stage, i * page, pages_of_tile[i], barrier);
          }
        }
      }
      __syncwarp();
    }
  }

  // Loads a page to the tile's keys that start at `key`.
  static __device__ __forceinline__ void load_page(Params const& params, uint32_t shared, int stage, int key, int page,
                                                   uint32_t barrier) {
    sm90::copy_box(shared + kKeysAt + stage * kKeyBytes + key * kRowBytes, &params.keys, barrier, 0, 0, page,
                   sm90::kKeepNormal);
    sm90::copy_box(shared + kScalesAt + stage * kScaleBytes + key * 4, &params.scales, barrier, 0, page, 0,
                   sm90::kKeepNormal);
  }

  static __device__ __forceinline__ uint32_t acquire(uint32_t shared, sm90::Position<Stages> const& at) {
    sm90::barrier_wait(empty(shared, at.stage), at.phase ^ 1);
    uint32_t const barrier = full(shared, at.stage);
    sm90::barrier_expect(barrier, kKeyBytes + kScaleBytes);
    return barrier;
  }
};

}  // namespace tilewright::mqa_logits
