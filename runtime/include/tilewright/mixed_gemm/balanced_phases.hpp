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
// time. So it first stores the partial sums that another CTA needs. The tile for which it needs others' partial sums
// comes last; by then they are stored, unless a tile is longer than a range. Time runs to the right:
//
//   CTA 0        A 0-2, store partials
//   CTA 1        B 0-1, store partials        A 3, add CTA 0's, store A
//   CTA 2        C 0, store partials          B 2-3, add CTA 1's, store B
//   CTA 3        C 1-3, add CTA 2's, store C
//
// A CTA waits only for CTAs with lower numbers, which started before it.
//
// One warp of the producer warpgroup, the messenger, does not load: it tells other CTAs that this CTA's partial sums
// are stored, and finds out when theirs are. So the consumers wait for no memory when they store partial sums, and for
// one round trip to L2 when they add others'.
//
//   waits            for                                            by
//   the messenger    this CTA's consumers: partial sums stored      named barrier kLeft
//   the messenger    other CTAs: partial sums stored                polling their words
//   the consumers    the messenger: it has seen all these words     named barrier kThere
//
// In clusters of two CTAs, a cluster has a range: its CTAs multiply the same stages of k of neighbouring tiles, and
// share activations by multicast. A CTA exchanges partial sums with the CTAs at its own place in other clusters.
//
// Kernels for many rows (`kWholeTiles`) divide only so many tiles that each CTA gets between one and two of them.
// Afterwards a CTA multiplies whole tiles, whose neighbours other CTAs multiply at the same time, so that L2 holds what
// they share.
#pragma once

#include <cstdint>

#include "tilewright/mixed_gemm/kernel.hpp"
#include "tilewright/sm90/divisor.hpp"

namespace tilewright::mixed_gemm {

constexpr int kMostBalanced = 144;  // CTAs of a launch: the most SMs of an sm_90

// For each CTA, the partial sums of one tile and a word. A word that equals `left` says that the CTA's partial sums are
// stored. `left` is a random number, because nothing clears the workspace before a launch: it may hold anything. The
// CTA that has seen a word sets it to 0, because other launches of the process have the same `left`.
struct BalancedWorkspace {
  char* sums;
  uint64_t* words;
  uint64_t left;
};

// The parameters of a launch. The first `larger` clusters have ranges of `stages` + 1 positions, the others of
// `stages`. `Product`: the parameters of the same kernel without equal work.
template <class Product>
struct BalancedParamsOf : Product {
  int stages, larger;
  sm90::Divisor k_tiles;  // stages of a tile
  BalancedWorkspace workspace;

  // The position where the range of a cluster begins.
  __device__ __forceinline__ int begin(int cluster) const { return cluster * stages + min(cluster, larger); }
};

using BalancedParams = BalancedParamsOf<Params>;

// The types and constants of a balanced kernel: those of Types (kernel.hpp), with other parameters.
template <class Type, class Format, class ElementD, int TileM, int TileN, int Pieces, int Stages, int Consumers,
          bool kPdl>
struct BalancedTypes : Types<Type, Format, ElementD, TileM, TileN, Pieces, Stages, Consumers, 1, kPdl> {
  using Params = BalancedParams;
};

__device__ __forceinline__ void store_releasing(uint64_t* address, uint64_t value) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}
__device__ __forceinline__ uint64_t load_acquiring(uint64_t const* address) {
  uint64_t value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
  return value;
}
// Loads four sums from L2. The compiler would move __ldcg over a barrier; it does not move this.
__device__ __forceinline__ void load_left(float4 const* address, float (&values)[4]) {
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values[0]), "=f"(values[1]), "=f"(values[2]), "=f"(values[3])
               : "l"(address)
               : "memory");
}

// `kFreeBarrier`: the first of two named barriers that nothing else uses. `kWholeTiles`: CTAs also multiply whole
// tiles.
template <class Types, int kFreeBarrier, bool kWholeTiles>
struct BalancedPhasesOf : Types {
  using typename Types::Layout;
  using typename Types::Mainloop;
  using typename Types::Params;
  using typename Types::Store;
  using Producer = mixed_gemm::Producer<Layout, Types::Stages>;
  static constexpr bool kSwapped = true, kHasWholeTiles = kWholeTiles;
  static constexpr int kRows = Types::kRows, kColumns = Types::kColumns, kGroupsOfSums = kRows * kColumns / 8;
  static constexpr int kSumBytes = Types::TileM * Types::TileN * 4;  // partial sums of a CTA
  static constexpr int64_t kWorkspaceBytes = int64_t(kMostBalanced) * (kSumBytes + 8);
  static constexpr int kThreads = (Types::kConsumers + 1) * 128, kSharedBytes = Layout::kBytes;
  // How many of the kGroupsOfSums 8-column accumulator groups of another CTA's sums a thread loads at once.
  static constexpr int kAtOnce = kGroupsOfSums <= 16 ? kGroupsOfSums : kGroupsOfSums % 8 == 0 ? 8 : 4;
  // Whether another CTA's sums are loaded before the last tile is multiplied, where registers have room for them.
  static constexpr bool kLoadsEarly = kGroupsOfSums <= 8 && Types::kConsumers <= 3;
  static_assert(Store::kBoxes && kGroupsOfSums % kAtOnce == 0, "D is stored by TMA");
  static_assert(Types::Stages >= 2 && Types::Stages <= 32 && kSharedBytes <= 227 * 1024,
                "the stages exceed the shared memory of sm_90");

  static __device__ __forceinline__ void init_barriers(Params const& params, uint32_t shared) {
    sm90::start_stages<Layout, Types::Stages>(params.cluster, shared, 1, Types::kConsumers);
  }

  static __device__ __forceinline__ void prefetch_maps(Params const& params) {
    sm90::prefetch_map(&params.b);
    sm90::prefetch_map(&params.d);
  }

  // Load: the producer's warps. The first one loads, the second one is the messenger.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                              bool loading_warp) {
    sm90::Load const activations(&params.b, params.policy_b, params.slices_b, place.m,
                                 place.sharers_of_b(params.cluster));
    Producer producer{shared, params.weight, params.policy_a, params.stage_bytes};
    Range const range(params);
    sm90::enter<Types::kPdl>(params.cluster);
    if (!loading_warp) {
      if (threadIdx.x / 32 == Types::kConsumers * 4 + 1) {
        carry_messages(params, range, place.m);
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
        end = after(params, range, end, segment.stages);
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
    bool const early = kLoadsEarly && params.stages >= params.k_tiles.divisor();
    sm90::enter<Types::kPdl>(cluster);
    Store store(params.epilogue, &params.d, shared + Layout::kStoresAt, warpgroup);
    for (int end = range.end; end > range.begin;) {
      Segment const segment(params, range.begin, end, place.m);
      bool const is_left = segment.first + segment.stages < params.k_tiles.divisor();
      bool const adds = !is_left && segment.first > 0;
      float sums[kRows][kColumns / 2];
      float others[kLoadsEarly ? kGroupsOfSums : 1][4];
      if (kLoadsEarly && early && adds) {
        // A tile is no longer than a range, so only the cluster before this one has earlier stages of the tile.
        sm90::named_barrier_sync(kThere, kInformed);
        load_others(params, range.index - 1, place.m, 0, others);
      }
      mainloop.run(segment.stages, sums);
      int const behind = end;
      if constexpr (kWholeTiles) {
        end = after(params, range, end, segment.stages);
      } else {
        end -= segment.stages;
      }
      if (is_left) {
        leave(params, range.index, place.m, sums);
        continue;
      }
      if (adds) {
        if (kLoadsEarly && early) {
          add(others, 0, sums);
        } else {
          add_others(params, range, place.m, behind - segment.stages - segment.first, sums);
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
  static __device__ __forceinline__ int after(Params const& params, Range const& range, int end, int stages) {
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
  static constexpr int kLeft = kFreeBarrier, kThere = kFreeBarrier + 1;  // named barriers; epilogues have 1 to 4
  static constexpr int kInformed = Types::kConsumers * 128 + 32;  // threads of both: the consumers and the messenger

  static __device__ __forceinline__ int number(Params const& params, int cluster, int m) {
    return cluster * params.cluster.m + m;
  }
  static __device__ __forceinline__ float4* sums_of(Params const& params, int cluster, int m) {
    int64_t const at = int64_t(number(params, cluster, m)) * kSumBytes;
    return reinterpret_cast<float4*>(params.workspace.sums + at) + threadIdx.x;
  }

  // Called by the messenger. Sets this CTA's word when its partial sums are stored. Then it waits for the words of the
  // clusters that have earlier stages of this cluster's last tile, and clears them.
  static __device__ __forceinline__ void carry_messages(Params const& params, Range const& range, int m) {
    BalancedWorkspace const& workspace = params.workspace;
    int const k_tiles = params.k_tiles.divisor();
    if (range.end != params.k_tiles.divide(range.end) * k_tiles) {
      sm90::named_barrier_sync(kLeft, kInformed);
      if (threadIdx.x % 32 == 0) {
        store_releasing(workspace.words + number(params, range.index, m), workspace.left);
      }
    }
    int const tile_begin = params.k_tiles.divide(range.begin) * k_tiles;
    if (range.begin == tile_begin || range.end < tile_begin + k_tiles) {
      return;  // this cluster adds no partial sums
    }
    if (threadIdx.x % 32 == 0) {
#pragma unroll 1
      for (int cluster = range.index - 1;; --cluster) {
        uint64_t* const word = workspace.words + number(params, cluster, m);
        while (load_acquiring(word) != workspace.left) {
        }
        *word = 0;
        if (params.begin(cluster) <= tile_begin) {
          break;
        }
      }
    }
    __syncwarp();
    sm90::named_barrier_arrive(kThere, kInformed);
  }

  // Stores the calling thread's sums as partial sums of this CTA: 16 bytes of each thread after another.
  static __device__ __forceinline__ void leave(Params const& params, int cluster, int m,
                                               float const (&sums)[kRows][kColumns / 2]) {
    float4* const to = sums_of(params, cluster, m);
#pragma unroll
    for (int group = 0; group < kGroupsOfSums; ++group) {
      float const* const v = sums[group / (kColumns / 8)] + group % (kColumns / 8) * 4;
      sm90::store_float4(to + group * Types::kConsumers * 128, v[0], v[1], v[2], v[3]);
    }
    sm90::named_barrier_arrive(kLeft, kInformed);
  }

  // Loads `Count` groups of another CTA's partial sums, starting at group `first`.
  template <int Count>
  static __device__ __forceinline__ void load_others(Params const& params, int cluster, int m, int first,
                                                     float (&others)[Count][4]) {
    float4 const* const from = sums_of(params, cluster, m);
#pragma unroll
    for (int group = 0; group < Count; ++group) {
      load_left(from + (first + group) * Types::kConsumers * 128, others[group]);
    }
  }

  template <int Count>
  static __device__ __forceinline__ void add(float const (&others)[Count][4], int first,
                                             float (&sums)[kRows][kColumns / 2]) {
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      int const group = first + i;
      float* const sum = sums[group / (kColumns / 8)] + group % (kColumns / 8) * 4;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sum[j] += others[i][j];
      }
    }
  }

  // Adds the partial sums of all earlier clusters that have stages of the tile that begins at position `tile_begin`.
  static __device__ __forceinline__ void add_others(Params const& params, Range const& range, int m, int tile_begin,
                                                    float (&sums)[kRows][kColumns / 2]) {
    sm90::named_barrier_sync(kThere, kInformed);
#pragma unroll 1
    for (int cluster = range.index - 1;; --cluster) {
#pragma unroll
      for (int first = 0; first < kGroupsOfSums; first += kAtOnce) {
        float others[kAtOnce][4];
        load_others(params, cluster, m, first, others);
        add(others, first, sums);
      }
      if (params.begin(cluster) <= tile_begin) {
        return;
      }
    }
  }
};

// The phases of a balanced kernel of `mixed_gemm`. Named barriers 8 and above are those of early.hpp.
template <class Types>
struct BalancedPhases : BalancedPhasesOf<Types, 6, false> {
  __device__ __forceinline__ void operator()(typename Types::Params const& params, char* memory) const {
    sm90::run_product<BalancedPhases>(params, memory);
  }
};

template <class Type, class Format, class ElementD, int TileM, int TileN, int Pieces, int Stages, int Consumers,
          bool kPdl>
using BalancedKernel =
    BalancedPhases<BalancedTypes<Type, Format, ElementD, TileM, TileN, Pieces, Stages, Consumers, kPdl>>;

}  // namespace tilewright::mixed_gemm
