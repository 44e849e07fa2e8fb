// What differs in the code of forms: the cluster that they see, and where their warps get the CTA's tiles from.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/grouped_gemm/form.hpp"
#include "tilewright/grouped_gemm/known_tiles.hpp"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/product.hpp"

namespace tilewright::grouped_gemm {

// The cluster of a launch, and a CTA's place in it. Both are constants in a form's copy without clusters. No form
// splits k.
template <Form kForm, bool kClusters = kForm == Form::kAny>
struct FormCluster {
  template <class Params>
  static __device__ __forceinline__ decltype(auto) shape(Params const& params) {
    if constexpr (kClusters) {
      return (params.cluster);
    } else {
      sm90::ClusterShape one;
      one.m = one.n = one.splits = 1;
      one.log_m = one.log_mn = 0;
      return one;
    }
  }

  static __device__ __forceinline__ sm90::ClusterPlace place(sm90::ClusterPlace const& in_launch) {
    sm90::ClusterPlace place = in_launch;
    if constexpr (kForm != Form::kAny) {
      place.split = 0;
    }
    if constexpr (!kClusters) {
      place.m = place.n = 0;
    }
    return place;
  }
};

// Where a CTA's warps get its tiles from, which have `kRows` rows. `kQueueAt`: the queue's offset in shared memory.
// `kSwapped`: D's rows are the columns of the kernel's own product, and of its clusters.
template <Form kForm, bool kClusters, int kRows, int kQueueAt, bool kSwapped>
struct FormTiles {
  static constexpr bool kKnown = kForm == Form::kDense;                          // each warp computes them
  static constexpr bool kRead = kForm == Form::kRows || kForm == Form::kCounts;  // from groups that the device reads
  using Source = std::conditional_t<kKnown, KnownTiles<kRows>, TileQueue>;

  template <class Params>
  static __device__ __forceinline__ Source source(Params const& params, uint32_t shared,
                                                  sm90::ClusterPlace const& place) {
    if constexpr (kKnown && !kClusters) {
      return Source(params.groups, static_cast<int>(blockIdx.x), 1, 0);
    } else if constexpr (kKnown) {
      sm90::ClusterShape const& cluster = params.cluster;
      return Source(params.groups, sm90::cluster_index(), kSwapped ? cluster.n : cluster.m,
                    kSwapped ? place.n : place.m);
    } else {
      return Source(shared + kQueueAt);
    }
  }

  // Sets `tile` to the first tile. Returns false if there is none. In a form, the warp enters here (sm90::enter): after
  // it has computed the tile, or before it waits for the queue.
  template <bool kWaitsForPrevious, class Params>
  static __device__ __forceinline__ bool first(Params const& params, Source const& source, Tile& tile) {
    bool const more = kKnown && source.wait(tile);
    if constexpr (kForm != Form::kAny) {
      sm90::enter<kWaitsForPrevious>(FormCluster<kForm, kClusters>::shape(params));
    }
    return kKnown ? more : source.wait(tile);
  }
};

}  // namespace tilewright::grouped_gemm
