// The phases (sm90/product.hpp) of a kernel whose CTAs all multiply equally many stages of k, whatever the number of
// tiles: stream-K, for packed weights.
//
// The stages of all tiles, one tile after another, are numbered: a number is a *position*. Each CTA has a range of
// positions, which may begin and end within a tile. Three tiles of four stages on four CTAs:
//
//   position     0  1  2  3 | 4  5  6  7 | 8  9 10 11
//   tile         A  A  A  A | B  B  B  B | C  C  C  C
//   CTA          0  0  0  1 | 1  1  2  2 | 2  3  3  3
//
// The CTA with a tile's last stage stores the tile. The CTAs with earlier stages of the tile store their partial sums
// to the workspace, and the CTA with the last stage adds them. A CTA goes through its range backwards, one tile at a
// time. So it first stores the partial sums that another CTA needs, and last computes the tile for which it needs
// others' itself. Unless a tile is longer than a range, these are stored before the CTA asks. Time runs to the right:
//
//   CTA 0        A 0-2, store partials
//   CTA 1        B 0-1, store partials        A 3, add CTA 0's, store A
//   CTA 2        C 0, store partials          B 2-3, add CTA 1's, store B
//   CTA 3        C 1-3, add CTA 2's, store C
//
// A CTA waits only for CTAs with lower numbers, which started before it.
//
// One warp of the producer warpgroup, which does not load, exchanges flags with other CTAs. So the consumers wait for
// no memory when they store partial sums, and for one round trip to L2 when they add others'.
//
//   waits            for                                            by
//   the flag warp    this CTA's consumers: partial sums stored      named barrier kPartialsStored
//   the flag warp    other CTAs: partial sums stored                polling their flags
//   the consumers    the flag warp: all of these flags are seen     named barrier kPartialsReady
//
// In clusters of two CTAs, a cluster has a range: its CTAs multiply the same stages of k of neighbouring tiles, and
// share activations by multicast. A CTA exchanges partial sums with the CTAs at its own place in other clusters.
//
// Kernels for many rows (`kWholeTiles`) divide few tiles: a CTA's range is less than two tiles long. Afterwards the CTA
// multiplies whole tiles. Other CTAs multiply the neighbours of a whole tile at the same time, so that L2 holds what
// they share.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/mixed_gemm/balanced_workspace.hpp"
#include "tilewright/mixed_gemm/kernel.hpp"
#include "tilewright/sm90/divisor.hpp"

namespace tilewright::mixed_gemm {

// The parameters of a launch. `Product`: those of the same kernel without equal work.
template <class Product>
struct BalancedParamsBase : Product {
  int stages;             // of a cluster's range
  int larger;             // how many clusters, the first ones, have one stage more
  sm90::Divisor k_tiles;  // stages of a tile
  BalancedWorkspace workspace;

  // The position where the range of a cluster begins.
  __device__ __forceinline__ int begin(int cluster) const { return cluster * stages + min(cluster, larger); }
};

// The parameters of a launch whose CTAs also multiply whole tiles.
template <class Product>
struct WholeTilesParams : BalancedParamsBase<Product> {
  int divided;  // stages of the tiles that clusters divide; whole tiles follow them
};

// Whether a `mixed_gemm` kernel is for many rows, so that its CTAs also multiply whole tiles. Kernels of narrower tiles
// are for up to 64 rows.
template <int TileN>
constexpr bool kHasManyRows = TileN > 64;

template <int TileN>
using BalancedParams = std::conditional_t<kHasManyRows<TileN>, WholeTilesParams<Params>, BalancedParamsBase<Params>>;

// The types and constants of a balanced kernel: those of kernel.hpp's Types, with the parameters above.
template <class Type, class Format, class ElementD, int TileM, int TileN, int Pieces, int Stages, int Consumers,
          bool kPdl>
struct BalancedTypes : Types<Type, Format, ElementD, TileM, TileN, Pieces, Stages, Consumers, 1, kPdl> {
  using Params = BalancedParams<TileN>;
};

// `kFreeBarrier`: the first of two named barriers that nothing else uses. `kWholeTiles`: CTAs also multiply whole
// tiles.
template <class Types, int kFreeBarrier, bool kWholeTiles>
struct BalancedPhasesBase : Types {
  using typename Types::Layout;
  using typename Types::Mainloop;
  using typename Types::Params;
  using typename Types::Store;
  using Producer = mixed_gemm::Producer<Layout, Types::Stages>;
  static constexpr bool kSwapped = true, kHasWholeTiles = kWholeTiles;
  static constexpr int kRows = Types::kRows, kColumns = Types::kColumns;
  // A thread's sums, in 8-column accumulator groups of four sums.
  static constexpr int kSumGroups = kRows * kColumns / 8;
  static constexpr int kPartialBytes = Types::TileM * Types::TileN * 4;  // partial sums of a CTA
  static constexpr int64_t kWorkspaceBytes = int64_t(kMaxBalancedCtas) * (kPartialBytes + 8);
  static constexpr int kThreads = (Types::kConsumers + 1) * 128, kSharedBytes = Layout::kBytes;
  // Groups of another CTA's sums that a thread loads at once.
  static constexpr int kGroupsPerLoad = kSumGroups <= 16 ? kSumGroups : kSumGroups % 8 == 0 ? 8 : 4;
  // Whether another CTA's sums are loaded before the last tile is multiplied, where registers have room for them.
  static constexpr bool kLoadsFirst = kSumGroups <= 8 && Types::kConsumers <= 3;
  static_assert(Store::kBoxes && kSumGroups % kGroupsPerLoad == 0, "D is stored by TMA");
  static_assert(Types::Stages >= 2 && Types::Stages <= 32 && kSharedBytes <= 227 * 1024,
                "the stages exceed the shared memory of sm_90");

  static __device__ __forceinline__ void init_barriers(Params const& params, uint32_t shared) {
    sm90::start_stages<Layout, Types::Stages>(params.cluster, shared, 1, Types::kConsumers);
  }

  static __device__ __forceinline__ void prefetch_maps(Params const& params) {
    sm90::prefetch_map(&params.b);
    sm90::prefetch_map(&params.d);
  }

  // Load: the producer's warps. The first one loads, the second one exchanges flags.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                              bool loading_warp) {
    sm90::Load const activations(&params.b, params.policy_b, params.slices_b, place.m,
                                 place.sharers_of_b(params.cluster));
    Producer producer{shared, params.weight, params.policy_a, params.stage_bytes};
    Range const range(params);
    sm90::enter<Types::kPdl>(params.cluster);
    if (!loading_warp) {
      if (threadIdx.x / 32 == Types::kConsumers * 4 + 1) {
        exchange_flags(params, range, place.m);
      }
      return;
    }
    for (int end = range.end; end > range.begin;) {
      Segment const segment(params, range.begin, end, place.m);
      if (params.cluster.m > 1) {
        producer.template run<true>(activations, segment.first, segment.stages, segment.row / 64, segment.column);
      } else {
        producer.template run<false>(activations, segment.first, segment.stages, segment.row / 64, segment.column);
      }
      if constexpr (kWholeTiles) {
        end = next_end(params, range, end, segment.stages);
      } else {
        end -= segment.stages;
      }
    }
    if (params.cluster.m > 1) {
      producer.drain();
    }
  }

  // Multiply: a consumer warpgroup.
  static __device__ __forceinline__ void multiply(Params const& params, uint32_t shared,
                                                  sm90::ClusterPlace const& place, int warpgroup) {
    sm90::ClusterShape const& cluster = params.cluster;
    sm90::Release const release(Layout::empty(shared, 0), cluster.size(), place.sharers(cluster), threadIdx.x % 128);
    Mainloop mainloop(shared, warpgroup * kRows, 0, release);
    Range const range(params);
    // A tile that is no longer than a range has earlier stages in one other cluster alone, the one before this one.
    bool const one_partial = kLoadsFirst && params.stages >= params.k_tiles.divisor();
    sm90::enter<Types::kPdl>(cluster);
    Store store(params.epilogue, &params.d, shared + Layout::kStoresAt, warpgroup);
    for (int end = range.end; end > range.begin;) {
      Segment const segment(params, range.begin, end, place.m);
      bool const lacks_last_stage = segment.first + segment.stages < params.k_tiles.divisor();
      bool const adds_partials = !lacks_last_stage && segment.first > 0;
      float sums[kRows][kColumns / 2];
      float partials[kLoadsFirst ? kSumGroups : 1][4];
      if (kLoadsFirst && one_partial && adds_partials) {
        sm90::named_barrier_sync(kPartialsReady, kBarrierThreads);
        load_partials(params, range.index - 1, place.m, 0, partials);
      }
      mainloop.run(segment.stages, sums);
      int const segment_end = end;
      if constexpr (kWholeTiles) {
        end = next_end(params, range, end, segment.stages);
      } else {
        end -= segment.stages;
      }
      if (lacks_last_stage) {
        store_partials(params, range.index, place.m, sums);
        continue;
      }
      if (adds_partials) {
        if (kLoadsFirst && one_partial) {
          add_partials(partials, 0, sums);
        } else {
          add_all_partials(params, range, place.m, segment_end - segment.stages - segment.first, sums);
        }
      }
      Types::finish(params, segment.column, sums);
      store.store(sums, segment.row + warpgroup * kRows * 64, segment.column, 0);
    }
    store.drain();
  }

 protected:
  // The positions of this cluster.
  struct Range {
    int index, begin, end;

    __device__ __forceinline__ explicit Range(Params const& params)
        : index(sm90::cluster_index()), begin(params.begin(index)), end(params.begin(index + 1)) {}
  };

  // The stages of one tile that a cluster multiplies in one go: its last ones before position `end`. They are `stages`
  // stages, starting at stage `first` of k. `row`, `column`: where the tile of the CTA at place `m` begins.
  struct Segment {
    int first, stages, row, column;

    __device__ __forceinline__ Segment(Params const& params, int begin, int end, int m) {
      int const tile = params.k_tiles.divide(end - 1), tile_begin = tile * params.k_tiles.divisor();
      first = max(begin, tile_begin) - tile_begin, stages = end - tile_begin - first;
      sm90::Block const block(params.raster, tile);
      row = (block.row * params.cluster.m + m) * Types::TileM, column = block.column * Types::TileN;
    }
  };

  // With whole tiles: the position where the segment ends that follows one of `stages` stages that ends at `end`; 0
  // after the last one. The range comes first, backwards. Whole tiles follow, one for each cluster at a time; they lie
  // after the divided tiles.
  static __device__ __forceinline__ int next_end(Params const& params, Range const& range, int end, int stages) {
    int const k_tiles = params.k_tiles.divisor();
    if (end > params.divided) {
      end += sm90::cluster_count() * k_tiles;
    } else if (end - stages > range.begin) {
      return end - stages;
    } else {
      end = params.divided + (range.index + 1) * k_tiles;
    }
    return end <= params.raster.blocks * k_tiles ? end : 0;
  }

 private:
  // Named barriers; 1 to 4 are the epilogues'.
  static constexpr int kPartialsStored = kFreeBarrier, kPartialsReady = kFreeBarrier + 1;
  static constexpr int kBarrierThreads = Types::kConsumers * 128 + 32;  // the consumers and the flag warp

  static __device__ __forceinline__ int cta_index(Params const& params, int cluster, int m) {
    return cluster * params.cluster.m + m;
  }
  // The first four sums of this thread among the partial sums of a CTA.
  static __device__ __forceinline__ float4* partials_at(Params const& params, int cluster, int m) {
    int64_t const offset = int64_t(cta_index(params, cluster, m)) * kPartialBytes;
    return reinterpret_cast<float4*>(params.workspace.partials + offset) + threadIdx.x;
  }

  // Called by the flag warp. Sets this CTA's flag when its partial sums are stored, then waits for the flags of the
  // clusters that have earlier stages of this cluster's last tile, and clears them.
  static __device__ __forceinline__ void exchange_flags(Params const& params, Range const& range, int m) {
    BalancedWorkspace const& workspace = params.workspace;
    int const k_tiles = params.k_tiles.divisor();
    if (range.end != params.k_tiles.divide(range.end) * k_tiles) {
      sm90::named_barrier_sync(kPartialsStored, kBarrierThreads);
      if (threadIdx.x % 32 == 0) {
        store_release(workspace.flags + cta_index(params, range.index, m), workspace.ready);
      }
    }
    int const tile_begin = params.k_tiles.divide(range.begin) * k_tiles;
    if (range.begin == tile_begin || range.end < tile_begin + k_tiles) {
      return;  // this cluster adds no partial sums
    }
    if (threadIdx.x % 32 == 0) {
#pragma unroll 1
      for (int cluster = range.index - 1;; --cluster) {
        uint64_t* const flag = workspace.flags + cta_index(params, cluster, m);
        while (load_acquire(flag) != workspace.ready) {
        }
        *flag = 0;
        if (params.begin(cluster) <= tile_begin) {
          break;
        }
      }
    }
    __syncwarp();
    sm90::named_barrier_arrive(kPartialsReady, kBarrierThreads);
  }

  // Stores the calling thread's sums as this CTA's partial sums: 16 bytes of each thread after another.
  static __device__ __forceinline__ void store_partials(Params const& params, int cluster, int m,
                                                        float const (&sums)[kRows][kColumns / 2]) {
    float4* const to = partials_at(params, cluster, m);
#pragma unroll
    for (int group = 0; group < kSumGroups; ++group) {
      float const* const v = sums[group / (kColumns / 8)] + group % (kColumns / 8) * 4;
      sm90::store_float4(to + group * Types::kConsumers * 128, v[0], v[1], v[2], v[3]);
    }
    sm90::named_barrier_arrive(kPartialsStored, kBarrierThreads);
  }

  // Loads `Count` groups of another CTA's partial sums, starting at group `first`.
  template <int Count>
  static __device__ __forceinline__ void load_partials(Params const& params, int cluster, int m, int first,
                                                       float (&partials)[Count][4]) {
    float4 const* const from = partials_at(params, cluster, m);
#pragma unroll
    for (int group = 0; group < Count; ++group) {
      load_partial(from + (first + group) * Types::kConsumers * 128, partials[group]);
    }
  }

  template <int Count>
  static __device__ __forceinline__ void add_partials(float const (&partials)[Count][4], int first,
                                                      float (&sums)[kRows][kColumns / 2]) {
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      int const group = first + i;
      float* const sum = sums[group / (kColumns / 8)] + group % (kColumns / 8) * 4;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sum[j] += partials[i][j];
      }
    }
  }

  // Adds the partial sums of all earlier clusters that have stages of the tile that begins at position `tile_begin`.
  static __device__ __forceinline__ void add_all_partials(Params const& params, Range const& range, int m,
                                                          int tile_begin, float (&sums)[kRows][kColumns / 2]) {
    sm90::named_barrier_sync(kPartialsReady, kBarrierThreads);
#pragma unroll 1
    for (int cluster = range.index - 1;; --cluster) {
#pragma unroll
      for (int first = 0; first < kSumGroups; first += kGroupsPerLoad) {
        float partials[kGroupsPerLoad][4];
        load_partials(params, cluster, m, first, partials);
        add_partials(partials, first, sums);
      }
      if (params.begin(cluster) <= tile_begin) {
        return;
      }
    }
  }
};

// The phases of a balanced kernel of `mixed_gemm`. Its schedules use named barriers 8 and above.
template <class Types>
struct BalancedPhases : BalancedPhasesBase<Types, 6, kHasManyRows<Types::TileN>> {
  __device__ __forceinline__ void operator()(typename Types::Params const& params, char* memory) const {
    sm90::run_product<BalancedPhases>(params, memory);
  }
};

template <class Type, class Format, class ElementD, int TileM, int TileN, int Pieces, int Stages, int Consumers,
          bool kPdl>
using BalancedKernel =
    BalancedPhases<BalancedTypes<Type, Format, ElementD, TileM, TileN, Pieces, Stages, Consumers, kPdl>>;

}  // namespace tilewright::mixed_gemm
