// What a launch tells a kernel that multiplies stages of two operands (product.hpp).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "tilewright/sm90/cluster_shape.hpp"
#include "tilewright/sm90/epilogue_params.hpp"

namespace tilewright::sm90 {

// What ptx.hpp calls CachePolicy, for the host's compiler, which does not read PTX; product.hpp holds them equal.
constexpr uint64_t kPolicyNormal = 0x1000000000000000, kPolicyEvictFirst = 0x12F0000000000000;

// In the order in which a CTA asks for them. Constants come by lines of 64 bytes, and the first warp that wants one
// waits 100 to 400 clocks: all that precedes the first product lies in three (of six, when maps lay between).
struct ProductParams {
  ClusterShape cluster;
  int k_each, k_more;   // k tiles of a split, and how many of the first ones have one more
  bool exchanges;       // sums go through the stages' memory, or k is cut into parts that meet in the workspace
  bool one_a, one_b;    // one matrix for every batch
  bool boxes_c, one_c;  // C, of D's type, comes as D goes: in boxes; of one matrix
  Slices slices_a, slices_b;
  uint64_t policy_a, policy_b;
  EpilogueParams epilogue;

  // Of k, for a kernel's own operands: `tile_m` and `tile_n` rows of theirs in a tile, of what a slice divides.
  void divide(ClusterShape const& shape, int tile_m, int tile_n, int k_tiles) {
    cluster = shape;
    slices_a = Slices::of(tile_m, shape.n);
    slices_b = Slices::of(tile_n, shape.m);
    k_each = k_tiles / shape.splits;
    k_more = k_tiles % shape.splits;
  }

  // The part of k of a split.
  __device__ __forceinline__ int k_tiles(int split) const { return k_each + (split < k_more ? 1 : 0); }
  __device__ __forceinline__ int first_k_tile(int split) const {
    return split * k_each + (k_more < split ? k_more : split);
  }
};

// TMA alone reads them, by their address: a kernel's parameters have them behind all others.
struct ProductMaps {
  CUtensorMap a, b, d;
};

}  // namespace tilewright::sm90
