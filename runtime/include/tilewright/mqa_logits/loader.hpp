// What a thread block of `mqa_logits` keeps in shared memory, its barriers, and the warps that neither multiply nor
// reduce: they load queries and keys by TMA, and clean what no query looks at.
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

// A warp's, or a warpgroup's, tiles of a ring: every `Count`-th.
template <int Count, int Stages>
struct Share {
  int tile;  // of the item at hand; or of one of the next
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

// `Tile` keys at a time, each tile one of `Warpgroups`'s. `Reduce` says how heads are laid out. Of the warps of one
// more warpgroup the first `Loaders` load, the last `Cleaners` clean.
template <class Work, class Product, class Reduce_, int Tile, int Stages, int Warpgroups, int Loaders, int Cleaners,
          class Element>
struct Loader {
  using Params = mqa_logits::Params<Work>;
  using Reduce = Reduce_;
  static constexpr int kTile = Tile, kQueryStages = 2, kLoaders = Loaders, kCleaners = Cleaners;
  static constexpr int kQueries = Reduce::kQueries, kColumns = Reduce::kColumns;

  // Shared memory: queries as they are decoded, the queries and the tiles of keys as they come, in swizzled rows; what
  // belongs to them; barriers.
  static constexpr int kRowBytes = Product::kRowBytes;
  static constexpr int kDecodedBytes = kColumns * Product::kDecodedBytes;
  static constexpr int kQueryBytes = kColumns * kRowBytes, kKeyBytes = kTile * kRowBytes;
  static constexpr int kSetBytes = kQueryBytes / Reduce::kSets;
  static constexpr int kWeightBytes = (kColumns * 4 + 127) / 128 * 128;  // where TMA writes
  static constexpr int kScaleBytes = kTile * 4;
  static constexpr int kQueriesAt = kQueryStages * kDecodedBytes;
  static constexpr int kKeysAt = kQueriesAt + kQueryStages * kQueryBytes;
  static constexpr int kWeightsAt = kKeysAt + Stages * kKeyBytes;
  static constexpr int kQueryScalesAt = kWeightsAt + kQueryStages * kWeightBytes;
  static constexpr int kScalesAt = kQueryScalesAt + Product::kQueryScales * kQueryStages * kWeightBytes;
  static constexpr int kBarriersAt = kScalesAt + Stages * kScaleBytes;
  static constexpr int kLoadedBytes = kBarriersAt + (kQueryStages + Stages) * 16;
  // A barrier tells a phase from the next one only: whoever waits for a stage waits for all of its tiles.
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

  // By one warp.
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
      // Every warp that reads a stage tells: tiles are one warpgroup's, queries everybody's.
      sm90::barrier_init(empty(shared, lane), lane < Stages ? 4 : 4 * Warpgroups);
    }
    sm90::fence_barrier_init();
    __syncwarp();
  }

  // By a warp that reads a stage: it may be overwritten.
  static __device__ __forceinline__ void release(uint32_t barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      sm90::barrier_arrive(barrier);
    }
  }

  // Of `Loaders` warps the one of number `loader`.
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

  // -infinity where no query looks, by `Cleaners` warps.
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
    constexpr int kMost = kTile / 32;  // pages of a tile
    int const page = params.work.page, each = kTile / page;
    int const first = item.key / page;
    Pages pages(params.work, item.table_row, first + share.tile * each);
    for (; share.tile < item.tiles; share.next()) {
      int const next = first + share.tile * each;
      int where[kMost];
#pragma unroll
      for (int i = 0; i < kMost; ++i) {
        where[i] = i == 0 || i < each ? pages.at(next + i) : 0;
      }
      if (loads) {
        uint32_t const barrier = acquire(shared, share.at);
#pragma unroll
        for (int i = 0; i < kMost; ++i) {
          if (i == 0 || i < each) {
            load_page(params, shared, share.at.stage, i * page, where[i], barrier);
          }
        }
      }
      __syncwarp();
    }
  }

  // To the tile's keys from `key` on.
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
