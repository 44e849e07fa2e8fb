// The `mixed_grouped_gemm` kernel for few rows of a group on sm_90a: it multiplies activations of 16 bits by packed
// weights with mma.sync. mixed_gemm/stream_warp.hpp says what the warps do: each has stages of its own.
//
// Thread blocks are persistent. An SM holds several of them: while one thread block adds its sums and finds its next
// tile, others load. Each warp runs the scheduler itself, and all warps of a thread block find the same tiles.
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/mixed_gemm/stream_elements.hpp"
#include "tilewright/mixed_gemm/stream_warp.hpp"
#include "tilewright/mixed_grouped_gemm/scheduler.hpp"
#include "tilewright/sm90/elements.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::mixed_grouped_gemm::stream {

struct Params {
  char const* weight;                         // packed elements
  char const* scale;                          // packed scales
  int64_t row_bytes_weight, row_bytes_scale;  // strides: a row of each is 64 of n
  int units;                                  // k in units of 128, rounded up
  int slices;                                 // n in slices of 64 rows of a group's W, rounded up
  int clusters;                               // how many, of one thread block each
  float alpha;                                // with the format's factor
  float const* group_factors;                 // a factor of each group, or null
  sm90::EpilogueParams epilogue;
  mixed_grouped_gemm::Groups groups;
  grouped_gemm::Heads heads;  // no columns are skipped
  alignas(64) CUtensorMap a;  // [groups or 1, m, k], boxes of 64 of k
};

// `Rows`: rows of D in a tile, 8 to 32. `ElementsOf`: Elements or GatedElements (mixed_gemm/stream_elements.hpp).
template <class Type_, class Format_, class ElementD_, int Slices, int Rows, int Warps, int Stages, int Blocks,
          bool kPdl_, template <class> class ElementsOf = mixed_gemm::stream::Elements>
struct Kernel {
  using Type = Type_;
  using Format = Format_;
  using ElementD = ElementD_;
  using Params = stream::Params;
  using Warp = mixed_gemm::stream::Warp<Type, Format, Slices, Rows, Warps, Stages>;
  using Layout = typename Warp::Layout;
  using OfTile = ElementsOf<Layout>;
  static constexpr int TileM = Slices * 64, TileN = Rows, kTileK = mixed_gemm::stream::kUnitK;
  static constexpr int kThreads = Warps * 32, kSharedBytes = Layout::kBytes, kBlocks = Blocks;
  static constexpr int kSumsOfElement = OfTile::kSums;
  static constexpr bool kPdl = kPdl_;
  static constexpr float kFactor = Warp::kFactor;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    typename Warp::Ring const ring(sm90::shared_address(memory), warp);
    if (lane == 0) {
      sm90::prefetch_map(&params.a);
    }
    ring.init();
    if constexpr (kPdl) {
      sm90::wait_for_previous_kernel();
      sm90::allow_next_kernel();
    }
    TileScheduler<Rows> scheduler(params.groups, blockIdx.x, gridDim.x);
    Tile tile{};
    sm90::Position<Stages> at{};
    while (scheduler.next(tile)) {
      int const group_slice = tile.group * params.slices, first = group_slice + tile.column * Slices;
      typename Warp::Source const source{first, group_slice + params.slices - 1, tile.row, tile.matrix};
      typename Warp::Sums sums = {};
      Warp::multiply(params, ring, source, warp, params.units, at, sums);
      Warp::store_sums(memory, sums);
      __syncthreads();
      store(params, memory, tile);
      sm90::fence_async_proxy();  // the next tile's bulk copies write where the sums were
      __syncthreads();
    }
  }

 private:
  // Adds the sums of the warps and stores the tile's rows of D.
  static __device__ __forceinline__ void store(Params const& params, char const* memory, Tile const& tile) {
    grouped_gemm::TileRowFates const fates{tile, params.groups.layout, params.groups.groups, params.heads};
    sm90::EpilogueParams const& epilogue = params.epilogue;
    float const factor =
        params.group_factors != nullptr ? params.alpha * __ldg(params.group_factors + tile.group) : params.alpha;
    int const rows = min(Rows, epilogue.m - tile.row);
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * OfTile::kColumns; i += kThreads) {
      int const row = tile.row + i / OfTile::kColumns, column = tile.column * OfTile::kColumns + i % OfTile::kColumns;
      sm90::RowFate const fate = fates(row);
      if (column >= epilogue.n || fate == sm90::RowFate::kLeft) {
        continue;
      }
      float value = 0.0f;
      if (fate == sm90::RowFate::kStored) {
        int const place = OfTile::place_of(i / OfTile::kColumns, i % OfTile::kColumns);
        float sums[OfTile::kSums];
#pragma unroll
        for (int sum = 0; sum < OfTile::kSums; ++sum) {
          sums[sum] = Warp::total(memory, place + sum * OfTile::kApart);
        }
        int64_t const row_of_bias = int64_t(tile.group) * OfTile::kSums * epilogue.n;
        value =
            mixed_gemm::stream::finish<OfTile, ElementD>(sums, factor, epilogue.bias, row_of_bias, epilogue.n, column);
      }
      ElementD::store(epilogue.d, tile.matrix * epilogue.batch_stride_d + row * epilogue.ld_d + column, value);
    }
  }
};

}  // namespace tilewright::mixed_grouped_gemm::stream
