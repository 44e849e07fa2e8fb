// The `mixed_gemm` kernel for few rows on sm_90a: it multiplies activations of 16 bits by packed weights with mma.sync.
//
// A thread block, or a cluster whose thread blocks divide k, computes a tile of D whose columns are 64 or 128 rows of
// W. stream_warp.hpp says what the warps do.
#pragma once

#include <cstdint>

#include "tilewright/mixed_gemm/stream_elements.hpp"
#include "tilewright/mixed_gemm/stream_warp.hpp"
#include "tilewright/sm90/element_epilogue.hpp"
#include "tilewright/sm90/elements.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::mixed_gemm::stream {

struct Params {
  char const* weight;                         // packed elements
  char const* scale;                          // packed scales
  int64_t row_bytes_weight, row_bytes_scale;  // strides: a row of each is 64 of n
  int units;                                  // k in units of 128, rounded up
  int slices;                                 // n in slices of 64 rows of W, rounded up
  int splits;                                 // thread blocks of a cluster, which divide k
  sm90::EpilogueParams epilogue;
  alignas(64) CUtensorMap a;  // [m, k], boxes of 64 of k
};

// `Rows`: the largest number of rows of D, 8 to 32. `ElementsOf`: Elements or GatedElements (stream_elements.hpp).
template <class Type_, class Format_, class ElementD_, int Slices, int Rows, int Warps, int Stages, bool kPdl_,
          template <class> class ElementsOf = Elements>
struct Kernel {
  using Type = Type_;
  using Format = Format_;
  using ElementD = ElementD_;
  using Params = stream::Params;
  using Warp = stream::Warp<Type, Format, Slices, Rows, Warps, Stages>;
  using Layout = typename Warp::Layout;
  using OfTile = ElementsOf<Layout>;
  static constexpr int kRows = Rows, kColumns = Layout::kColumns;
  static constexpr int kThreads = Warps * 32, kSharedBytes = Layout::kBytes;
  static constexpr bool kPdl = kPdl_;
  static constexpr float kFactor = Warp::kFactor;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int const split = blockIdx.x % params.splits, tile = blockIdx.x / params.splits;
    typename Warp::Ring const ring(sm90::shared_address(memory), warp);
    typename Warp::Source const source{tile * Slices, params.slices - 1, 0, 0};
    if (lane == 0) {
      sm90::prefetch_map(&params.a);
    }
    ring.init();
    int const first = params.units * split / params.splits, end = params.units * (split + 1) / params.splits;
    if constexpr (kPdl) {
      sm90::wait_for_previous_kernel();
      sm90::allow_next_kernel();
    }
    typename Warp::Sums sums = {};
    sm90::Position<Stages> at{};
    Warp::multiply(params, ring, source, first + warp, end, at, sums);
    Warp::store_sums(memory, sums);
    __syncthreads();
    add_up(params, memory, split, tile);
  }

 private:
  // Adds the sums of the warps, then those of the cluster's thread blocks, and stores D. A thread adds all sums of an
  // element.
  static __device__ __forceinline__ void add_up(Params const& params, char* memory, int split, int tile) {
    float* const totals = reinterpret_cast<float*>(memory + Layout::kTotalsAt);
    int const count = params.epilogue.m * OfTile::kColumns;  // whole warps: a multiple of 32
#pragma unroll 1
    for (int i = threadIdx.x; i < count; i += kThreads) {
      int const place = OfTile::place_of(i / OfTile::kColumns, i % OfTile::kColumns);
#pragma unroll
      for (int sum = 0; sum < OfTile::kSums; ++sum) {
        totals[place + sum * OfTile::kApart] = Warp::total(memory, place + sum * OfTile::kApart);
      }
    }
    if (params.splits > 1) {
      sm90::cluster_barrier();
    }  // otherwise a thread reads what it has written itself
    uint32_t const address = sm90::shared_address(totals);
#pragma unroll 1
    for (int i = split * kThreads + threadIdx.x; i < count; i += params.splits * kThreads) {
      int const row = i / OfTile::kColumns, column = i % OfTile::kColumns;
      uint32_t const place = address + OfTile::place_of(row, column) * 4;
      float sums[OfTile::kSums] = {};
#pragma unroll 1
      for (int rank = 0; rank < params.splits; ++rank) {
        uint32_t const of_rank = sm90::cluster_address(place, rank);
#pragma unroll
        for (int sum = 0; sum < OfTile::kSums; ++sum) {
          sums[sum] += sm90::load_float_cluster(of_rank + sum * OfTile::kApart * 4);
        }
      }
      store(params.epilogue, sums, row, tile * OfTile::kColumns + column);
    }
    if (params.splits > 1) {
      sm90::cluster_barrier();  // no CTA ends before its shared memory is read
    }
  }

  // Stores one element of D. Called by all threads of a warp.
  static __device__ __forceinline__ void store(sm90::EpilogueParams const& params, float (&sums)[OfTile::kSums],
                                               int row, int column) {
    if constexpr (OfTile::kSums == 1) {
      sm90::store_element<ElementD, sm90::Activation::kGiven>(params, sums[0], row, column, 0);
    } else if (column < params.n) {
      float const value = finish<OfTile, ElementD>(sums, params.alpha, params.bias, 0, params.n, column);
      ElementD::store(params.d, row * params.ld_d + column, value);
    }
  }
};

}  // namespace tilewright::mixed_gemm::stream
