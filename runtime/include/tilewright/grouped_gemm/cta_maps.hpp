// The tensor maps of groups that divide k, where each group's operands are matrices of their own. A CTA makes the maps
// of the groups that it computes, so that no kernel has to write them before the product.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "tilewright/grouped_gemm/along_k_params.hpp"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/shared_maps.hpp"

namespace tilewright::grouped_gemm {

// The CTA's loading warp changes a map of A and one of B in shared memory for each group, and copies them to global
// memory, from where TMA reads them. The copies of the last kCtaMaps groups stay there, because loads may still read
// them. That is enough with fewer stages than kCtaMaps: at least one load follows each new map, and before that load
// the warp waits until the stage that it overwrites was read, so until an older load is done.
template <int kStages>
class CtaMaps {
 public:
  static constexpr int kSharedBytes = 2 * sizeof(CUtensorMap);
  static_assert(kStages < kCtaMaps, "a load might still read the maps that are replaced");

  // Copies the maps of all of k to shared memory, where `make` changes them. Called by the whole warp.
  template <class Params>
  __device__ __forceinline__ CtaMaps(Params const& params, uint32_t shared)
      : shared_(shared), maps_(params.cta_maps + blockIdx.x * (2 * kCtaMaps)) {
    constexpr int kWords = sizeof(CUtensorMap) / 16;
    int const lane = threadIdx.x % 32;
    if (lane < 2) {
      // `publish_map` writes by atomic exchanges, which would wait until L2 has the lines.
      sm90::prefetch_line(maps_ + lane);
    }
    if (lane < 2 * kWords) {  // B's map follows A's (sm90::ProductMaps)
      uint32_t const* const words = reinterpret_cast<uint32_t const*>(&params.a) + lane * 4;
      sm90::store_words(shared_ + lane * 16, words[0], words[1], words[2], words[3]);
    }
    __syncwarp();
  }

  // Makes the maps of a group, whose part of k is `range` and not empty: the rows of its matrices are as long as that
  // part. Returns the map of A; that of B follows it. `kUnit`: elements of a k tile, of a byte each. Called by the
  // whole warp.
  template <int kUnit, class Params>
  __device__ __forceinline__ CUtensorMap const* make(Params const& params, Tile::KRange const& range) {
    int const lane = threadIdx.x % 32;
    __syncwarp();  // all threads have copied the last group's maps
    if (lane < 2) {
      char const* const operand = lane == 0 ? params.of_k.a : params.of_k.b;
      int64_t const rows = lane == 0 ? params.epilogue.m : params.epilogue.n;
      sm90::replace_shared_map(shared_ + lane * sizeof(CUtensorMap), operand + range.first * kUnit * rows,
                               range.count * kUnit);
    }
    __syncwarp();
    CUtensorMap* const maps = maps_ + slot_ * 2;
    slot_ = (slot_ + 1) % kCtaMaps;
    sm90::publish_map(maps, shared_);
    sm90::publish_map(maps + 1, shared_ + sizeof(CUtensorMap));
    sm90::acquire_map(maps), sm90::acquire_map(maps + 1);
    return maps;
  }

 private:
  uint32_t shared_;
  CUtensorMap* maps_;
  int slot_ = 0;
};

}  // namespace tilewright::grouped_gemm
