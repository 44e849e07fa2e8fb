// The header that generated `reduced_gemm` kernels include: the two kernels, and their adapter to one
// `tilewright_kernel` (abi.h).
#pragma once

#include "tilewright/reduced_gemm/args.h"
#include "tilewright/reduced_gemm/kernel.hpp"
#include "tilewright/sm90/clustered.hpp"
#include "tilewright/sm90/operands.hpp"

namespace tilewright::reduced_gemm {

// Launches the kernel, then the kernel that adds the parts up (`Traits::combining_entry`).
template <class Traits>
struct Host {
  using Args = tilewright_reduced_gemm_args;
  using Kernel = typename Traits::Kernel;
  using Combiner = Combine<Kernel>;
  static constexpr int kVector = 16 / Kernel::Element::kBytes;  // elements in 16 bytes, TMA's alignment

  static bool can_implement(Args const& args) {
    auto const aligned = [&](int64_t leading, int64_t batch_stride) {
      return leading % kVector == 0 && (args.batch == 1 || batch_stride % kVector == 0);
    };
    bool const sizes = args.m > 0 && args.n > 0 && args.k > 0 && args.batch > 0 && args.tactic.sm_count > 0;
    sm90::ClusterShape const cluster = cluster_of(args);
    return sizes && cluster.legal() && k_tiles(args) * args.batch < INT32_MAX &&
           tiles(args) * Kernel::TileSums::kCount < INT32_MAX && aligned(args.ld_a, args.batch_stride_a) &&
           aligned(args.ld_b, args.batch_stride_b);
  }

  static int64_t workspace_bytes(Args const& args) {
    return parts(args, args.tactic.sm_count / cluster_of(args).size()) * tiles(args) * Kernel::TileSums::kCount *
           int64_t(sizeof(float4));
  }

  static cudaError_t enqueue(Context const& context, Args const& args, void* workspace, cudaStream_t stream) {
    auto* const sums = static_cast<float4*>(workspace);
    sm90::ClusterShape const cluster = cluster_of(args);
    LaunchShape shape = launch_shape<Traits>();
    int at_once = 0;
    cudaError_t error = sm90::prepare<Traits>(context, Traits::entry(), args.tactic, cluster, shape, at_once);
    if (error != cudaSuccess) {
      return error;
    }
    int const tile_count = static_cast<int>(tiles(args)), tiles_down = static_cast<int>(blocks_down(args)) * cluster.m;
    int const part_count = static_cast<int>(parts(args, at_once));
    int const total = static_cast<int>(k_tiles(args) * args.batch);
    constexpr int kBytes = Kernel::Element::kBytes;
    sm90::Matrices const a{args.a,     int64_t(args.k) * kBytes, args.m,
                           args.batch, args.ld_a * kBytes,       args.batch_stride_a * kBytes};
    sm90::Matrices const b{args.b,     int64_t(args.k) * kBytes, args.n,
                           args.batch, args.ld_b * kBytes,       args.batch_stride_b * kBytes};
    Params params{};
    params.cluster = cluster;
    params.slices_a = sm90::Slices::of(Kernel::TileM, cluster.n);
    params.slices_b = sm90::Slices::of(Kernel::TileN, cluster.m);
    params.sums = sums;
    params.m = args.m, params.n = args.n;
    params.blocks = static_cast<int>(blocks(args));
    params.blocks_down = static_cast<int>(blocks_down(args));
    params.tiles_down = tiles_down;
    params.k_tiles = static_cast<int>(k_tiles(args));
    params.k_tiles_per_part = total / part_count;
    params.larger_parts = total % part_count;
    params.next_matrix = part_count / params.k_tiles, params.next_k = part_count % params.k_tiles;
    // Whether more than one tile reads the operand.
    bool const a_again = args.n > Kernel::TileN * cluster.n || a.one();
    bool const b_again = args.m > Kernel::TileM * cluster.m || b.one();
    error = sm90::encode_operands(params, a, b, a_again, b_again);
    if (error != cudaSuccess) {
      return error;
    }
    shape.grid = dim3(static_cast<unsigned>(tile_count * part_count));
    error = tilewright::launch<Traits>(context, Traits::entry(), &params, shape, stream);
    if (error != cudaSuccess) {
      return error;
    }
    CombineParams combine{
        sums,          args.d,     args.beta != 0.0f ? args.c : nullptr,
        args.ld_c,     args.ld_d,  args.m,
        args.n,        tile_count, tiles_down,
        part_count,    args.alpha, args.beta,
        args.f32 != 0,
    };
    LaunchShape const second = sm90::combining_shape(int64_t(tile_count) * Combiner::kBlocksOfTile,
                                                     Combiner::warps_for(part_count) * 32, Traits::kPdl);
    return tilewright::launch<Combining>(context, Traits::combining_entry(), &combine, second, stream);
  }

 private:
  struct Combining {};  // the type by which `allow` knows the second kernel

  static constexpr int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }
  static int64_t k_tiles(Args const& args) {
    return ceil_div(int64_t(args.k) * Kernel::Element::kBytes, Kernel::kTileBytesK);
  }
  static sm90::ClusterShape cluster_of(Args const& args) { return sm90::cluster_of(args.tactic, 1); }
  // Blocks in a column of D; a block has one tile for each CTA of a cluster.
  static int64_t blocks_down(Args const& args) { return ceil_div(args.m, Kernel::TileM * cluster_of(args).m); }
  static int64_t blocks(Args const& args) {
    return blocks_down(args) * ceil_div(args.n, Kernel::TileN * cluster_of(args).n);
  }
  static int64_t tiles(Args const& args) { return blocks(args) * cluster_of(args).m * cluster_of(args).n; }

  // How many clusters divide the k of a block: as many as the GPU runs at once, at most one for each k tile.
  static int64_t parts(Args const& args, int at_once) {
    int64_t const most = at_once / blocks(args), k = k_tiles(args) * args.batch;
    return most < 1 ? 1 : most < k ? most : k;
  }
};

}  // namespace tilewright::reduced_gemm

#define TILEWRIGHT_REDUCED_GEMM_KERNEL(NAME)                                                        \
  TILEWRIGHT_COMBINING_KERNEL(NAME, tilewright::NAME::Reduced,                                      \
                              tilewright::reduced_gemm::Combine<tilewright::NAME::Reduced::Kernel>, \
                              tilewright::reduced_gemm::CombineParams)                              \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Reduced, tilewright::reduced_gemm::Host, 1, 1024)
