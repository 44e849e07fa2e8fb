// The parameters of kernels that multiply stages of two operands (product.hpp), which host and device share.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "tilewright/sm90/cluster_shape.hpp"
#include "tilewright/sm90/epilogue_params.hpp"

namespace tilewright::sm90 {

// The values of CachePolicy (ptx.hpp) for the host's compiler, which does not read PTX. product.hpp asserts that they
// are equal.
constexpr uint64_t kPolicyNormal = 0x1000000000000000, kPolicyEvictFirst = 0x12F0000000000000;

// The fields are in the order in which a CTA reads them. A CTA gets kernel parameters by lines of 64 bytes, and the
// first warp that reads a line waits 100 to 400 clocks. All fields that are read before the first product lie in three
// lines. With tensor maps among them, they took six.
struct ProductParams {
  ClusterShape cluster;
  int k_tiles_per_split, larger_splits;  // k tiles of a split; the first `larger_splits` splits have one more
  bool epilogue_through_smem;            // sums go through the stages' memory, or through the workspace (parts.hpp)
  bool broadcast_a, broadcast_b;         // one matrix serves every batch
  bool c_by_tma, broadcast_c;            // TMA loads C, which has D's type, into D's buffers; one matrix of C
  Slices slices_a, slices_b;
  uint64_t policy_a, policy_b;
  EpilogueParams epilogue;

  // Divides k among splits, and loads among CTAs. `tile_m`, `tile_n`: rows of a box of the kernel's own A and B, which
  // multicast slices divide.
  void divide(ClusterShape const& shape, int tile_m, int tile_n, int k_tiles) {
    cluster = shape;
    slices_a = Slices::of(tile_m, shape.n);
    slices_b = Slices::of(tile_n, shape.m);
    k_tiles_per_split = k_tiles / shape.splits;
    larger_splits = k_tiles % shape.splits;
  }

  // How many k tiles a split has, and which is its first.
  __device__ __forceinline__ int k_tiles(int split) const {
    return k_tiles_per_split + (split < larger_splits ? 1 : 0);
  }
  __device__ __forceinline__ int first_k_tile(int split) const {
    return split * k_tiles_per_split + (larger_splits < split ? larger_splits : split);
  }
};

// Tensor maps. Only TMA reads them, by their addresses, so they lie after all other parameters.
struct ProductMaps {
  CUtensorMap a, b, d;
};

}  // namespace tilewright::sm90
