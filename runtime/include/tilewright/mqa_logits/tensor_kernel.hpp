// The `mqa_logits` kernel of sm_100: TMA, mbarriers and tcgen05.
//
// Keys are rows of the product, 128 to a tile, and the heads of a block of queries its columns. One warp issues the
// tensor core's products, tile after tile, into tensor memory, which has room for some tiles. Two warpgroups reduce
// them alternately. Row r lies in lane r, so that a thread has one key with all heads of all queries, and threads
// exchange nothing.
//
// Words of scale factors (FP4) are loaded in the order of rows. One warp reorders 128 of them for `tcgen05.cp`, which
// copies them to tensor memory: word r goes to r % 32 * 4 + r / 32.
#pragma once

#include <cstdint>

#include "tilewright/mqa_logits/loader.hpp"
#include "tilewright/mqa_logits/tensor_products.hpp"
#include "tilewright/mqa_logits/work.hpp"

namespace tilewright::mqa_logits {

// One warp loads; one warp cleans, or two if there are no scale factors.
template <class Work, class Product, int Heads, int Queries, int Stages, int Warpgroups, class Element>
using TensorLoader = Loader<Work, Product, RowReduction<Heads, Queries, Product::kBounded>, tcgen05::kLanes, Stages,
                            Warpgroups, 1, Product::kQueryScales ? 1 : 2, Element>;

template <class Work_, template <int> class Products, int Heads, int HeadDim, int Queries, int Stages, int Warpgroups,
          class Element, bool kPdl>
struct TensorKernel : TensorLoader<Work_, Products<HeadDim>, Heads, Queries, Stages, Warpgroups, Element> {
  static constexpr int kHeads = Heads, kHeadDim = HeadDim;
  using Work = Work_;
  using Product = Products<HeadDim>;
  using Core = typename Product::Core;
  using Base = TensorLoader<Work, Product, Heads, Queries, Stages, Warpgroups, Element>;
  using Reduce = typename Base::Reduce;
  static constexpr bool kScales = Product::kQueryScales;
  using Base::full, Base::empty, Base::full_queries, Base::empty_queries, Base::release;
  using Base::kColumns, Base::kQueryStages, Base::kRowBytes, Base::kQueryBytes, Base::kKeyBytes, Base::kWeightBytes;
  using Base::kScaleBytes, Base::kQueriesAt, Base::kKeysAt, Base::kWeightsAt, Base::kQueryScalesAt, Base::kScalesAt;
  using Base::kTile, Base::kLoadedBytes, Base::kCleaners;
  using typename Base::Params;
  static constexpr int kThreads = (Warpgroups + 1) * 128;

  // Tensor memory: tiles of products, equally many for each warpgroup; the words of each tile's keys; the queries'
  // words.
  static constexpr int kTileColumns = kColumns + kScales * kTile / 32, kQueryColumns = kScales * kColumns / 32;
  static constexpr int kSlots =
      Warpgroups * (2 * Warpgroups * kTileColumns + kQueryStages * kQueryColumns <= tcgen05::kMostColumns ? 2 : 1);
  static constexpr int kKeyScales = kSlots * kColumns, kQueryScales = kKeyScales + kSlots * kTile / 32 * kScales;
  static constexpr int kUsedColumns = kQueryScales + kQueryStages * kQueryColumns;
  static constexpr int kTensorColumns = kUsedColumns <= 128 ? 128 : kUsedColumns <= 256 ? 256 : 512;
  static_assert(kUsedColumns <= tcgen05::kMostColumns, "the tiles exceed tensor memory");
  static_assert(kColumns <= 256 && kColumns % 8 == 0, "columns of an instruction");
  static_assert(!kScales || kColumns % 128 == 0, "words are copied 128 at a time");

  // Shared memory beside what is loaded: barriers of tiles of products, and of words that are in order; where tensor
  // memory begins; the emulated one.
  static constexpr int kSlotsAt = kLoadedBytes, kReadyAt = kSlotsAt + kSlots * 16;
  static constexpr int kAddressAt = kReadyAt + kScales * (Stages + kQueryStages) * 8, kEmulatedAt = kAddressAt + 16;
  static constexpr int kSharedBytes = kEmulatedAt + kUsedColumns * Core::kSharedBytes;
  static_assert(kSharedBytes <= 227 * 1024, "the stages exceed the shared memory of sm_100");
  static_assert(Stages > Warpgroups, "a warpgroup's next tile is loaded while it works");

  // Registers of a thread; an SM has 65536. A thread that reduces holds a weight for each column.
  static constexpr int kMathRegisters = 224, kOtherRegisters = 56;
  static_assert(Warpgroups == 2, "registers are for two warpgroups that reduce");

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    uint32_t const shared = sm90::shared_address(memory);
    int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
    Core const core(shared + kEmulatedAt);
    if (shared % 1024 != 0) {
      __trap();  // the swizzles need this alignment; no static shared memory precedes the data
    }
    if (warp == 0) {
      Base::start(params, shared);
      start_own(shared);
    } else if (warp == kMultiplier) {
      // A thread block of the previous kernel may allocate tensor memory of this SM later, and would wait for this one.
      if constexpr (kPdl && Core::kShared) {
        sm90::wait_for_previous_kernel();
      }
      core.template allocate<kTensorColumns>(shared + kAddressAt);
    }
    __syncthreads();
    uint32_t const tensor = sm90::load_word(shared + kAddressAt);
    if constexpr (kPdl) {
      sm90::wait_for_previous_kernel();
      sm90::allow_next_kernel();
    }
    if (warp < Warpgroups * 4) {
      sm90::take_registers<kMathRegisters>();
      Math(params, shared, core, tensor, warp / 4).run();
    } else {
      sm90::keep_registers<kOtherRegisters>();
      if (warp == kLoads) {
        Base::load(params, shared, 0);
      } else if (warp == kMultiplier) {
        multiply(params, shared, core, tensor);
      } else if (kScales && warp == kOrders) {
        order_scales(params, shared);
      } else if (params.logits.clean) {
        Base::clean(params, warp - kCleans);
      }
    }
    __syncthreads();  // all warps have read tensor memory
    if (warp == kMultiplier) {
      core.template free<kTensorColumns>(tensor);
    }
  }

 private:
  static constexpr int kLoads = Warpgroups * 4, kMultiplier = kLoads + 1, kOrders = kLoads + 2;
  static constexpr int kCleans = kLoads + 4 - kCleaners;  // and those after it

  static __device__ __forceinline__ uint32_t full_slot(uint32_t shared, int slot) {
    return shared + kSlotsAt + slot * 16;
  }
  static __device__ __forceinline__ uint32_t empty_slot(uint32_t shared, int slot) {
    return full_slot(shared, slot) + 8;
  }
  // The barrier that says that a stage can be multiplied: its data are loaded, and for FP4 its words are reordered.
  static __device__ __forceinline__ uint32_t ready(uint32_t shared, int stage) {
    return kScales ? shared + kReadyAt + stage * 8 : full(shared, stage);
  }
  static __device__ __forceinline__ uint32_t ready_queries(uint32_t shared, int stage) {
    return kScales ? ready(shared, Stages + stage) : full_queries(shared, stage);
  }

  static __device__ __forceinline__ void start_own(uint32_t shared) {
    int const lane = threadIdx.x;
    if (lane < kSlots) {
      sm90::barrier_init(full_slot(shared, lane), Core::kArrivals);
      sm90::barrier_init(empty_slot(shared, lane), 4 * Core::kArrivals);  // by warps that read it
    }
    if (kScales && lane < Stages + kQueryStages) {
      sm90::barrier_init(ready(shared, lane), Core::kArrivals);
    }
    sm90::fence_barrier_init();
    __syncwarp();
  }

  // By a warp.
  static __device__ __forceinline__ void tell(uint32_t barrier) {
    if constexpr (Core::kArrivals == 1) {
      release(barrier);
    } else {
      sm90::barrier_arrive(barrier);
    }
  }

  // Multiply: the warp that issues the tensor core's products.
  static __device__ __forceinline__ void multiply(Params const& params, uint32_t shared, Core const& core,
                                                  uint32_t tensor) {
    sm90::Position<kQueryStages> queries{};
    sm90::Position<Stages> keys{};
    sm90::Position<kSlots> slots{};
    bool const issues = Core::issues_instructions();
    params.work.template for_each<Queries, kTile>(params.logits, [&](Item const& item) {
      sm90::barrier_wait(ready_queries(shared, queries.stage), queries.phase);
      uint32_t const query_scales = tensor + kQueryScales + queries.stage * kQueryColumns;
      if (kScales && issues) {
        copy_scales<kColumns>(core, query_scales, shared + kQueryScalesAt + queries.stage * kWeightBytes);
      }
#pragma unroll 1
      for (int tile = 0; tile < item.tiles; ++tile) {
        sm90::barrier_wait(ready(shared, keys.stage), keys.phase);
        sm90::barrier_wait(empty_slot(shared, slots.stage), slots.phase ^ 1);
        core.after_barrier();
        if (issues) {
          uint32_t const key_scales = tensor + kKeyScales + slots.stage * (kTile / 32);
          if constexpr (kScales) {
            copy_scales<kTile>(core, key_scales, shared + kScalesAt + keys.stage * kScaleBytes);
          }
          Product::template multiply<kColumns>(
              core, tensor + slots.stage * kColumns, shared + kKeysAt + keys.stage * kKeyBytes,
              shared + kQueriesAt + queries.stage * kQueryBytes, key_scales, query_scales);
          core.commit(full_slot(shared, slots.stage));
        }
        __syncwarp();
        keys.next(), slots.next();
      }
      queries.next();
    });
  }

  template <int Rows>
  static __device__ __forceinline__ void copy_scales(Core const& core, uint32_t to, uint32_t from) {
#pragma unroll
    for (int i = 0; i < Rows / 128; ++i) {
      core.copy_scales(to + i * 4, tcgen05::shared_descriptor<16>(from + i * 512));
    }
  }

  // The warp that reorders words of scale factors.
  static __device__ __forceinline__ void order_scales(Params const& params, uint32_t shared) {
    sm90::Position<kQueryStages> queries{};
    sm90::Position<Stages> keys{};
    params.work.template for_each<Queries, kTile>(params.logits, [&](Item const& item) {
      sm90::barrier_wait(full_queries(shared, queries.stage), queries.phase);
      order<kColumns>(shared + kQueryScalesAt + queries.stage * kWeightBytes);
      tell(ready_queries(shared, queries.stage));
#pragma unroll 1
      for (int tile = 0; tile < item.tiles; ++tile) {
        sm90::barrier_wait(full(shared, keys.stage), keys.phase);
        order<kTile>(shared + kScalesAt + keys.stage * kScaleBytes);
        tell(ready(shared, keys.stage));
        keys.next();
      }
      queries.next();
    });
  }

  template <int Rows>
  static __device__ __forceinline__ void order(uint32_t words) {
    int const lane = threadIdx.x % 32;
#pragma unroll
    for (int at = 0; at < Rows * 4; at += 512) {
      uint32_t own[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        own[i] = sm90::load_word(words + at + i * 128 + lane * 4);
      }
      __syncwarp();  // all have read
      sm90::store_words(words + at + lane * 16, own[0], own[1], own[2], own[3]);
    }
    sm90::fence_async_proxy();
  }

  // A warpgroup that reduces. A thread has one key of each of its tiles.
  class Math {
   public:
    __device__ __forceinline__ Math(Params const& params, uint32_t shared, Core const& core, uint32_t tensor,
                                    int warpgroup)
        : params_(params),
          shared_(shared),
          core_(core),
          // A warp reads its own quarter of the lanes.
          tensor_(tensor + (threadIdx.x / 32 % 4 * 32 << 16)),
          share_(warpgroup),
          slots_(warpgroup) {}

    __device__ __forceinline__ void run() {
      params_.work.template for_each<Queries, kTile>(params_.logits, [this](Item const& item) {
        sm90::barrier_wait(full_queries(shared_, queries_.stage), queries_.phase);
        prepare(item);
        while (share_.tile < item.tiles) {
          reduce(item);
          share_.next(), slots_.next();
        }
        share_.tile -= item.tiles;
        release(empty_queries(shared_, queries_.stage));
        queries_.next();
      });
    }

   private:
    static constexpr int kPiece = Heads < 32 ? Heads : 32;  // columns that are read at once
    static constexpr int kPieces = kColumns / kPiece;

    Params const& params_;
    uint32_t shared_;
    Core core_;
    uint32_t tensor_;
    Share<Warpgroups, Stages> share_;
    Share<Warpgroups, kSlots> slots_;
    sm90::Position<kQueryStages> queries_{};
    float weights_[kColumns];
    int starts_[Queries];
    unsigned counts_[Queries];  // keys of each query

    __device__ __forceinline__ void prepare(Item const& item) {
#pragma unroll
      for (int i = 0; i < kColumns; i += 4) {
        uint32_t words[4];
        sm90::load_words(shared_ + kWeightsAt + queries_.stage * kWeightBytes + i * 4, words);
#pragma unroll
        for (int h = 0; h < 4; ++h) {
          weights_[i + h] = __uint_as_float(words[h]) * Reduce::unit(h);
        }
      }
#pragma unroll
      for (int q = 0; q < Queries; ++q) {
        starts_[q] = __shfl_sync(~0u, item.mine.start, q);
        counts_[q] = __shfl_sync(~0u, item.mine.end, q) - starts_[q];
      }
    }

    __device__ __forceinline__ void reduce(Item const& item) {
      int const stage = share_.at.stage, slot = slots_.at.stage, row = threadIdx.x % 128;
      float scale = Reduce::kScale;
      if constexpr (!kScales) {
        sm90::barrier_wait(full(shared_, stage), share_.at.phase);
        scale *= Product::factor(shared_ + kScalesAt + stage * kScaleBytes + row * 4);
      }
      sm90::barrier_wait(full_slot(shared_, slot), slots_.at.phase);
      core_.after_barrier();
      float logits[Queries];
      sum(tensor_ + slot * kColumns, logits);
      core_.before_barrier();
      tell(empty_slot(shared_, slot));
      store(item, item.key + share_.tile * kTile + row, scale, logits);
      release(empty(shared_, stage));  // only after its scales are used: see `Kernel::Math::store`
    }

    // Loads each piece of the columns while it adds up the previous one.
    __device__ __forceinline__ void sum(uint32_t from, float (&logits)[Queries]) {
      float products[2][kPiece], sums[2];
      core_.load(from, products[0]);
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        core_.wait_for_loads();
        sm90::hold(products[piece % 2]);
        if (piece + 1 < kPieces) {
          core_.load(from + (piece + 1) * kPiece, products[(piece + 1) % 2]);
        }
        int const column = piece * kPiece, query = column / Heads;
        if (column % Heads == 0) {
          sums[0] = sums[1] = 0.0f;
        }
        if (counts_[query] > 0) {
#pragma unroll
          for (int i = 0; i < kPiece; i += 2) {
            Reduce::add(sums, products[piece % 2][i], products[piece % 2][i + 1], &weights_[column + i]);
          }
        }
        logits[query] = sums[0] + sums[1];
      }
    }

    __device__ __forceinline__ void store(Item const& item, int key, float scale, float const (&logits)[Queries]) {
      Logits const& out = params_.logits;
#pragma unroll
      for (int q = 0; q < Queries; ++q) {
        if (static_cast<unsigned>(key - starts_[q]) < counts_[q]) {
          auto* const row = static_cast<typename Element::Stored*>(out.out) + (item.query + q) * out.ld;
          Element::store(row - params_.work.origin({starts_[q], 0}), key, logits[q] * scale);
        }
      }
    }
  };
};

}  // namespace tilewright::mqa_logits
