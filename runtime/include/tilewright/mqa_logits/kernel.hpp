// The `mqa_logits` kernel of sm_90a and sm_120f: TMA, mbarriers and wgmma (or mma.sync) in plain PTX.
//
// Keys are rows of the product and the heads of a block of queries its columns, so that the sum over heads stays within
// the four threads of a quad. The queries of an item stay in shared memory while its keys are loaded, 64 at a time. The
// warpgroups take the tiles of keys round robin, so that one reduces its products while the tensor core works for
// another.
#pragma once

#include <cstdint>

#include "tilewright/mqa_logits/fp4.hpp"
#include "tilewright/mqa_logits/loader.hpp"
#include "tilewright/mqa_logits/products.hpp"
#include "tilewright/mqa_logits/reduction.hpp"
#include "tilewright/mqa_logits/work.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::mqa_logits {

// Two warps load pages, which they look up; one warp loads contiguous keys. The other warps of their warpgroup clean.
template <class Work, class Product, int Heads, int Queries, int Stages, int Warpgroups, class Element>
using WarpgroupLoader = Loader<Work, Product, Reduction<Heads, Queries, Product::kBounded>, kTile, Stages, Warpgroups,
                               Work::kPaged ? 2 : 1, Work::kPaged ? 2 : 3, Element>;

// `Pieces`: the number of pieces into which a tile's columns are divided. Each piece has its own wgmmas, so that a
// warpgroup reduces one piece while the tensor core computes the next. `Run`: the number of consecutive tiles that a
// warpgroup overlaps. It starts the pieces of a tile while it reduces those of the previous tile. Without this, all
// warpgroups would wait for the tensor core at the same time, and reduce at the same time.
template <class Work_, template <int> class Products, int Heads, int HeadDim, int Queries, int Pieces, int Run,
          int Stages, int Warpgroups, class Element, bool kPdl>
struct Kernel : WarpgroupLoader<Work_, Products<HeadDim>, Heads, Queries, Stages, Warpgroups, Element> {
  static constexpr int kHeads = Heads, kHeadDim = HeadDim;
  using Work = Work_;
  using Product = Products<HeadDim>;
  using Base = WarpgroupLoader<Work, Product, Heads, Queries, Stages, Warpgroups, Element>;
  using Reduce = typename Base::Reduce;
  using Base::kColumns, Base::kQueryStages, Base::kRowBytes, Base::kDecodedBytes, Base::kQueryBytes, Base::kKeyBytes;
  using Base::kLoaders;
  using Base::kScalesAt, Base::full, Base::empty, Base::full_queries, Base::empty_queries, Base::release;
  using Base::kWeightBytes, Base::kScaleBytes, Base::kQueriesAt, Base::kKeysAt, Base::kWeightsAt, Base::kQueryScalesAt;
  using typename Base::Params;
  static constexpr int kThreads = (Warpgroups + 1) * 128;
  static constexpr int kSharedBytes = Base::kLoadedBytes;

  static constexpr bool kDecodes = Product::kDecodedBytes > 0;
  static constexpr bool kScaledColumns = Product::kQueryScales && !kDecodes;  // products take scales of queries

  static_assert(kSharedBytes <= 227 * 1024, "the stages exceed the shared memory of sm_90");
  static_assert(Stages > Warpgroups * (Run > 1 ? 2 : 1), "a warpgroup's next tile is loaded while it works");
  static_assert(Run == 1 || Product::kAsynchronous, "tiles in a row are wgmma's");

  // Registers of a thread; an SM has 65536. The loading warpgroup gives up what it does not need.
  static constexpr int kMathRegisters = Warpgroups == 2 ? 224 : Warpgroups == 3 ? 152 : 104;
  static constexpr int kLoadRegisters = Warpgroups <= 3 ? 56 : 64;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    uint32_t const shared = sm90::shared_address(memory);
    int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
    int const warpgroup = warp / 4;
    if (shared % 1024 != 0) {
      __trap();  // the swizzles need this alignment; no static shared memory precedes the data
    }
    if (warp == 0) {
      Base::start(params, shared);
    }
    __syncthreads();
    if constexpr (kPdl) {
      sm90::wait_for_previous_kernel();
      sm90::allow_next_kernel();
    }
    if (warpgroup == Warpgroups) {
      if constexpr (Product::kAsynchronous) {
        sm90::keep_registers<kLoadRegisters>();
      }
      int const loader = warp - Warpgroups * 4;
      if (loader < kLoaders) {
        Base::load(params, shared, loader);
      } else if (params.logits.clean) {
        Base::clean(params, loader - kLoaders);
      }
    } else {
      if constexpr (Product::kAsynchronous) {
        sm90::take_registers<kMathRegisters>();
      }
      Math(params, shared, warpgroup).run();
    }
  }

 private:
  // A warpgroup that multiplies and reduces.
  class Math {
   public:
    __device__ __forceinline__ Math(Params const& params, uint32_t shared, int warpgroup)
        : params_(params), shared_(shared), warpgroup_(warpgroup), share_(warpgroup) {}

    __device__ __forceinline__ void run() {
      params_.work.template for_each<Queries, kTile>(params_.logits, [this](Item const& item) {
        sm90::barrier_wait(full_queries(shared_, queries_.stage), queries_.phase);
        if constexpr (kDecodes) {
          decode();
        }
        prepare(item);
        multiply_and_reduce(item);
        share_.tile -= item.tiles;
        release(empty_queries(shared_, queries_.stage));
        queries_.next();
      });
    }

   private:
    static constexpr int kPieceColumns = kColumns / Pieces;
    using Accumulators = float[kPieceColumns / 2];

    // Where this thread stores the logits of its queries.
    struct Row {
      typename Element::Stored* logits;  // of key 0
      int start;
      unsigned count;  // keys
    };
    struct Tile {
      int key;  // of this thread's first row
      int stage;
      uint32_t phase;
    };

    Params const& params_;
    uint32_t shared_;
    int warpgroup_;
    sm90::Position<kQueryStages> queries_{};
    Share<Warpgroups, Stages> share_;
    float weights_[kColumns / 4];
    uint32_t column_scales_[kScaledColumns ? kColumns / 8 : 1];
    Row rows_[Reduce::kSets];

    static __device__ __forceinline__ int quad() { return threadIdx.x % 32 / 4; }
    static __device__ __forceinline__ int first_row() { return threadIdx.x / 32 % 4 * 16 + quad(); }

    __device__ __forceinline__ uint32_t query_scale(int number) const {
      return sm90::load_word(shared_ + kQueryScalesAt + queries_.stage * kWeightBytes + number * 4);
    }

    // One of the two buffers of decoded queries is free: all warpgroups have synchronised since they multiplied from
    // it.
    __device__ __forceinline__ void decode() {
      uint32_t const stage = queries_.stage;
      for (int i = threadIdx.x; i < kColumns * 4; i += Warpgroups * 128) {
        int const column = i / 4;
        Product::template decode_query<kColumns>(shared_ + stage * kDecodedBytes,
                                                 shared_ + kQueriesAt + stage * kQueryBytes + column * kRowBytes,
                                                 column, i % 4, query_scale(Reduce::head_of(column)));
      }
      sm90::fence_async_proxy();
      sm90::named_barrier_sync(1, Warpgroups * 128);
    }

    __device__ __forceinline__ void prepare(Item const& item) {
      if constexpr (kScaledColumns) {
#pragma unroll
        for (int n = 0; n < kColumns / 8; ++n) {
          column_scales_[n] = query_scale(Reduce::head_of(n * 8 + quad()));
        }
      }
      int const t = threadIdx.x % 4;
      Logits const& logits = params_.logits;
#pragma unroll
      for (int s = 0; s < Reduce::kSets; ++s) {
        int const query = s * Reduce::kSetQueries + Reduce::query(t);
        int const first = query * Heads + Reduce::first_head(t);
        uint32_t const weights = shared_ + kWeightsAt + queries_.stage * kWeightBytes + first * 4;
#pragma unroll
        for (int i = 0; i < Reduce::kSetGroups; ++i) {
          uint32_t pair[2];
          sm90::load_words(weights + i * Reduce::kTurn * 4, pair);
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            float weight = __uint_as_float(pair[h]);
            if constexpr (kDecodes) {
              weight *= Product::query_factor(query_scale(first + i * Reduce::kTurn + h));
            }
            weights_[(s * Reduce::kSetGroups + i) * 2 + h] = weight * Reduce::unit(h);
          }
        }
        Range const range{__shfl_sync(~0u, item.mine.start, query), __shfl_sync(~0u, item.mine.end, query)};
        rows_[s].logits = static_cast<typename Element::Stored*>(logits.out) + (item.query + query) * logits.ld -
                          params_.work.origin(range);
        rows_[s].start = range.start;
        rows_[s].count = Reduce::stores(t) ? range.end - range.start : 0;
      }
    }

    __device__ __forceinline__ void multiply_and_reduce(Item const& item) {
      if constexpr (Run > 1) {
        in_a_row<Run>(item);
      }
      in_a_row<1>(item);
    }

    // Runs `Tiles` tiles at a time, as long as that many are left.
    template <int Tiles>
    __device__ __forceinline__ void in_a_row(Item const& item) {
#pragma unroll 1
      while (share_.tile + (Tiles - 1) * Warpgroups < item.tiles) {
        row<Tiles>(item);
      }
    }

    // Unrolled, because ptxas does not analyse a loop that reads products while wgmma computes those of the next tile
    // (13.0, warning C7514: it would wait for each wgmma). A separate function, because the compiler would preserve the
    // previous values of a loop's variables, which wgmma overwrites.
    template <int Tiles>
    __device__ __forceinline__ void row(Item const& item) {
      Accumulators products[Pieces];
      Tile const tile = take(item);
      sm90::barrier_wait(full(shared_, tile.stage), tile.phase);
      typename Product::Keys keys = keys_of(tile);
      if constexpr (Product::kAsynchronous) {
        begin<0>(keys, products);
      }
      finish<Tiles - 1>(item, tile, keys, products);
    }

    template <int Piece>
    __device__ __forceinline__ void begin(typename Product::Keys const& keys, Accumulators (&products)[Pieces]) {
      multiply(Piece, keys, products[Piece]);
      if constexpr (Piece + 1 < Pieces) {
        begin<Piece + 1>(keys, products);
      }
    }

    __device__ __forceinline__ typename Product::Keys keys_of(Tile const& tile) const {
      return {shared_ + kKeysAt + tile.stage * kKeyBytes, shared_ + kScalesAt + tile.stage * kScaleBytes};
    }

    // Reduces a tile whose products have begun, and `More` tiles after it.
    template <int More>
    __device__ __forceinline__ void finish(Item const& item, Tile const& tile, typename Product::Keys& keys,
                                           Accumulators (&products)[Pieces]) {
      uint32_t const scales = shared_ + kScalesAt + tile.stage * kScaleBytes;
      float const scale = Product::factor(scales + first_row() * 4);
      float const scale_8 = Product::factor(scales + (first_row() + 8) * 4);
      Reduce reduction;
      if constexpr (More > 0) {
        Tile const next = take(item);
        typename Product::Keys next_keys = keys_of(next);
        Accumulators next_products[Pieces];
        reduce<0, true>(next, keys, next_keys, products, next_products, reduction);
        store(tile, scale, scale_8, reduction);
        finish<More - 1>(item, next, next_keys, next_products);
      } else {
        reduce<0, false>(tile, keys, keys, products, products, reduction);
        store(tile, scale, scale_8, reduction);
      }
    }

    // Returns this warpgroup's tile and advances to its next one.
    __device__ __forceinline__ Tile take(Item const& item) {
      Tile const tile{item.key + share_.tile * kTile + first_row(), share_.at.stage, share_.at.phase};
      share_.next();
      return tile;
    }

    // Reduces a piece while the tensor core computes the following ones, then starts the same piece of the next tile.
    template <int Piece, bool kNext>
    __device__ __forceinline__ void reduce(Tile const& next, typename Product::Keys& keys,
                                           typename Product::Keys const& next_keys, Accumulators (&products)[Pieces],
                                           Accumulators (&next_products)[Pieces], Reduce& reduction) {
      if constexpr (Product::kAsynchronous) {
        Product::template wait<kNext ? Pieces - 1 : Pieces - 1 - Piece>(products[Piece], keys);
      } else {
        multiply(Piece, keys, products[Piece]);
      }
      reduction.template add<Piece * kPieceColumns / 8>(products[Piece], weights_);
      if constexpr (kNext) {
        if constexpr (Piece == 0) {
          sm90::barrier_wait(full(shared_, next.stage), next.phase);
        }
#pragma unroll
        for (int i = 0; i < kPieceColumns / 2; ++i) {
          next_products[Piece][i] = products[Piece][i];  // not read, but so they have the same registers
        }
        sm90::hold(next_products[Piece]);
        multiply(Piece, next_keys, next_products[Piece]);
      }
      if constexpr (Piece + 1 < Pieces) {
        reduce<Piece + 1, kNext>(next, keys, next_keys, products, next_products, reduction);
      }
    }

    // Logits, then the word that the tile's stage may be overwritten. Not earlier: an arrival overtakes loads of shared
    // memory whose values nobody has waited for. Those stand in line behind stores to global memory, for microseconds
    // where these miss the TLB: on an H200, the first tiles of an item got the scales of the tile loaded next.
    __device__ __forceinline__ void store(Tile const& tile, float scale, float scale_8, Reduce& reduction) {
      float own[Reduce::kSets][Reduce::kRows];
      reduction.finish(own);
#pragma unroll
      for (int s = 0; s < Reduce::kSets; ++s) {
        sm90::hold(own[s]);  // otherwise the compiler would reduce within the branches below, one row after the other
      }
      int const first = Reduce::row(threadIdx.x % 4);
#pragma unroll
      for (int s = 0; s < Reduce::kSets; ++s) {
#pragma unroll
        for (int r = 0; r < Reduce::kRows; ++r) {
          bool const second = first + r != 0;
          int const key = tile.key + 8 * (first + r);
          float const logit = own[s][r] * ((second ? scale_8 : scale) * Reduce::kScale);
          if (static_cast<unsigned>(key - rows_[s].start) < rows_[s].count) {
            Element::store(rows_[s].logits, key, logit);
          }
        }
      }
      release(empty(shared_, tile.stage));
    }

    __device__ __forceinline__ void multiply(int piece, typename Product::Keys const& keys, Accumulators& products) {
      // Bytes of a row in a box. The rest of a longer decoded row lies in further boxes.
      constexpr int kBytes = kDecodes ? 128 : kRowBytes;
      uint32_t const queries =
          shared_ + (kDecodes ? queries_.stage * kDecodedBytes : kQueriesAt + queries_.stage * kQueryBytes);
      Product::template multiply<kPieceColumns, kColumns>(
          products, keys, queries + piece * kPieceColumns * kBytes,
          column_scales_ + (kScaledColumns ? piece * kPieceColumns / 8 : 0));
    }
  };
};

}  // namespace tilewright::mqa_logits
