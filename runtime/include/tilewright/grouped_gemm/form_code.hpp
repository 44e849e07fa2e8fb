// What differs in a form's code: the cluster that it sees, and where its warps get the CTA's tiles from.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/grouped_gemm/form.hpp"
#include "tilewright/grouped_gemm/known_tiles.hpp"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/product.hpp"

namespace tilewright::grouped_gemm {

// The cluster of a launch, and a CTA's place in it: constants in a form whose clusters are one CTA.
template <Form kForm>
struct FormCluster {
  template <class Params>
  static __device__ __forceinline__ decltype(auto) shape(Params const& params) {
    if constexpr (kForm == Form::kAny) {
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
      place.m = place.n = place.split = 0;
    }
    return place;
  }
};

// The tiles of a CTA, of `kRows` rows, as its warps get them. `kQueueAt`: the queue's offset in shared memory.
template <Form kForm, int kRows, int kQueueAt>
struct FormTiles {
  static constexpr bool kKnown = kForm == Form::kDense;  // each warp computes them
  using Source = std::conditional_t<kKnown, KnownTiles<kRows>, TileQueue>;

  template <class Params>
  static __device__ __forceinline__ Source source(Params const& params, uint32_t shared) {
    if constexpr (kKnown) {
      return Source(params.groups);
    } else {
      return Source(shared + kQueueAt);
    }
  }

  // Sets `tile` to the first tile. Returns false if there is none. In a form, the warp enters here (sm90::enter): if it
  // computes the tile, after that.
  template <bool kWaitsForPrevious, class Params>
  static __device__ __forceinline__ bool first(Params const& params, Source const& source, Tile& tile) {
    bool const more = kKnown && source.wait(tile);
    if constexpr (kForm != Form::kAny) {
      sm90::enter<kWaitsForPrevious>(FormCluster<kForm>::shape(params));
    }
    return kKnown ? more : source.wait(tile);
  }
};

}  // namespace tilewright::grouped_gemm
