// What a generated lean `gemm` kernel for sm_90a includes: the kernel, and what turns it into a `tilewright_kernel`.
#pragma once

#include "tilewright/gemm/args.h"
#include "tilewright/gemm/epilogue_params.hpp"
#include "tilewright/gemm/lean_kernel.hpp"
#include "tilewright/sm90/clustered.hpp"
#include "tilewright/sm90/operands.hpp"

namespace tilewright::gemm::lean {

using sm90::ceil_div;

// How a kernel is launched. The parts of a split k meet in the shared memory of a cluster, or in a workspace.
template <class Traits>
struct Maker {
  using Args = tilewright_gemm_args;
  using Kernel = typename Traits::Kernel;
  static constexpr bool kSwapped = Kernel::kSwapped;
  static constexpr int kElementBytes = Kernel::ElementA::kBytes;
  using Sums = sm90::TileSums<typename Kernel::Warpgroups>;
  static constexpr int kVector = 16 / kElementBytes;  // elements of A and B that TMA's alignment wants

  static int k_tiles(Args const& args) { return ceil_div(args.k, Kernel::kTileBytesK / kElementBytes); }

  static constexpr int kVectorD = 16 / Kernel::ElementD::kBytes;

  // Columns of D that TMA can store, as far as strides say. It stores whole 16 bytes: what lies behind the end of a
  // row within them would be overwritten.
  static int columns_in_boxes(Args const& args) {
    bool const aligned = args.ld_d % kVectorD == 0 && (args.batch == 1 || args.batch_stride_d % kVectorD == 0);
    return Kernel::Store::kBoxes && aligned ? args.n / kVectorD * kVectorD : 0;
  }

  // Whether C can come in boxes as D goes in boxes, as far as strides say.
  static bool c_in_boxes(Args const& args) {
    bool const aligned = args.ld_c % kVectorD == 0 && (args.batch == 1 || args.batch_stride_c % kVectorD == 0);
    return Kernel::kBarriersOfC > 0 && aligned && args.type_c == static_cast<int32_t>(Kernel::ElementD::kAddend);
  }

  // Whether registers can go to boxes at once.
  static bool plain_epilogue(Args const& args, int n_boxes, bool boxes_c) {
    bool const bias = args.bias == nullptr || args.type_bias == static_cast<int32_t>(Kernel::ElementD::kAddend);
    return n_boxes == args.n && bias && (args.beta == 0.0f || boxes_c);
  }

  static bool can_implement(Args const& args) {
    sm90::ClusterShape const cluster = sm90::cluster_of(args.tactic);
    auto const aligned = [&](int64_t leading, int64_t batch_stride) {
      return leading % kVector == 0 && (args.batch == 1 || batch_stride % kVector == 0);
    };
    bool const sizes = args.m > 0 && args.n > 0 && args.k > 0 && args.batch > 0;
    int const splits = args.tactic.splits, parts = sm90::parts_of(args.tactic);
    bool const cuts = splits <= k_tiles(args);
    bool const plain = splits == 1 && plain_epilogue(args, columns_in_boxes(args), c_in_boxes(args));
    return sizes && sm90::legal(args.tactic, cluster) && cuts && known_epilogue<Kernel::kActivation>(args) &&
           (Kernel::kExchanges || plain) && aligned(args.ld_a, args.batch_stride_a) &&
           aligned(args.ld_b, args.batch_stride_b) &&
           int64_t(args.batch) * parts * ceil_div(args.m, 64) * ceil_div(args.n, 8) < INT32_MAX &&
           (parts == 1 || sm90::Combine<Kernel>::blocks(Maker::parts(args, nullptr)) < INT32_MAX);
  }

  static int64_t workspace_bytes(Args const& args) {
    int const count = sm90::parts_of(args.tactic);
    return count > 1 ? int64_t(count) * parts(args, nullptr).tiles() * Sums::kCount * int64_t(sizeof(float4)) : 0;
  }

  // As many of k as the tactic says. Tiles are those of whole clusters.
  static sm90::Parts parts(Args const& args, void* workspace) {
    sm90::ClusterShape const cluster = sm90::cluster_of(args.tactic);
    int const rows = kSwapped ? args.n : args.m, columns = kSwapped ? args.m : args.n;
    int const down = ceil_div(rows, Kernel::TileM * cluster.m), across = ceil_div(columns, Kernel::TileN * cluster.n);
    return {sm90::parts_of(args.tactic),     args.batch,       sm90::Divisor(down * across * args.batch),
            static_cast<float4*>(workspace), down * cluster.m, across * cluster.n};
  }

  static int64_t blocks(Args const&, typename Kernel::Params const& params) { return params.raster.blocks; }

  static cudaError_t make_params(Args const& args, sm90::Launching const& launching, typename Kernel::Params& params) {
    constexpr int kD = Kernel::ElementD::kBytes;
    sm90::ClusterShape const& cluster = launching.cluster;
    // As the kernel sees them: rows of A and of B.
    int const rows = kSwapped ? args.n : args.m, columns = kSwapped ? args.m : args.n;
    sm90::Matrices const a = kSwapped ? operand(args, args.b, rows, Kernel::kMnA, args.ld_b, args.batch_stride_b)
                                      : operand(args, args.a, rows, Kernel::kMnA, args.ld_a, args.batch_stride_a);
    sm90::Matrices const b = kSwapped ? operand(args, args.a, columns, Kernel::kMnB, args.ld_a, args.batch_stride_a)
                                      : operand(args, args.b, columns, Kernel::kMnB, args.ld_b, args.batch_stride_b);

    // Of an MN-major operand, slices of the 64 of k that a box has.
    params.divide(cluster, Kernel::kMnA ? 64 : Kernel::TileM, Kernel::kMnB ? 64 : Kernel::TileN, k_tiles(args));
    if (!Kernel::kMnA) {
      params.slices_a = sm90::Slices::of(Kernel::TileM, cluster.n, rows);
    }
    if (!Kernel::kMnB) {
      params.slices_b = sm90::Slices::of(Kernel::TileN, cluster.m, columns);
    }
    params.parts = parts(args, launching.workspace);
    params.k_each = k_tiles(args) / args.tactic.splits;
    params.k_more = k_tiles(args) % args.tactic.splits;
    params.stage_bytes = Kernel::kTileBytesK * ((Kernel::kMnA ? Kernel::TileM : params.slices_a.loaded()) +
                                                (Kernel::kMnB ? Kernel::TileN : params.slices_b.loaded()));
    int const blocks_down = ceil_div(rows, Kernel::TileM * cluster.m);
    int const blocks_across = ceil_div(columns, Kernel::TileN * cluster.n);
    params.raster = raster(args, cluster, launching.at_once, blocks_down, blocks_across);
    // One column (row) of tiles reads it once.
    bool const a_again = blocks_across > 1 || (a.one() && args.batch > 1);
    bool const b_again = blocks_down > 1 || (b.one() && args.batch > 1);
    if (cudaError_t const error = sm90::encode_operands(params, a, b, a_again, b_again); error != cudaSuccess) {
      return error;
    }
    int const n_boxes = reinterpret_cast<uintptr_t>(args.d) % 16 == 0 ? columns_in_boxes(args) : 0;
    sm90::Matrices const c{const_cast<void*>(args.c), int64_t(args.n) * kD, args.m, args.batch, args.ld_c * kD,
                           args.batch_stride_c * kD};
    bool const boxes_c = c_in_boxes(args) && c.aligned();
    params.exchanges = args.tactic.splits > 1 || !plain_epilogue(args, n_boxes, boxes_c);
    params.boxes_c = !params.exchanges && args.beta != 0.0f;
    params.one_c = c.one();
    if (params.exchanges && !Kernel::kExchanges) {
      return cudaErrorInvalidValue;
    }
    params.epilogue = epilogue_params(args, n_boxes);
    if (params.parts.count > 1) {
      params.epilogue.c = nullptr;  // the second kernel's
    }
    if (params.boxes_c) {
      if (cudaError_t const error = encode_stores<typename Kernel::Store>(params.c, c); error != cudaSuccess) {
        return error;
      }
    }
    if (n_boxes == 0) {
      return cudaSuccess;
    }
    sm90::Matrices const d{args.d, int64_t(n_boxes) * kD, args.m, args.batch, args.ld_d * kD, args.batch_stride_d * kD};
    return params.exchanges ? encode_stores<typename Kernel::SharedStore>(params.d, d)
                            : encode_stores<typename Kernel::Store>(params.d, d);
  }

 private:
  template <class Store>
  static cudaError_t encode_stores(CUtensorMap& map, sm90::Matrices const& d) {
    return sm90::encode_matrices(map, d, Store::kBoxBytes, Store::kBoxRows, Store::kSwizzle);
  }

  // `rows` of k elements; MN-major: the other way round.
  static sm90::Matrices operand(Args const& args, void const* address, int rows, bool mn_major, int64_t leading,
                                int64_t batch_stride) {
    int const inner = mn_major ? rows : args.k, outer = mn_major ? args.k : rows;
    return {address,    int64_t(inner) * kElementBytes, outer,
            args.batch, leading * kElementBytes,        batch_stride * kElementBytes};
  }

  // The tactic's order: `swizzle` tiles of the direction that the raster goes along; else what reads the least.
  static sm90::Raster raster(Args const& args, sm90::ClusterShape const& cluster, int at_once, int rows, int columns) {
    int const matrices = args.batch * sm90::parts_of(args.tactic);  // parts of k follow one another as they do
    int64_t const high = int64_t(Kernel::TileM) * cluster.m, wide = int64_t(Kernel::TileN) * cluster.n;
    if (args.tactic.raster == TILEWRIGHT_RASTER_HEURISTIC) {
      return {rows, columns, matrices, sm90::Raster::best_group(rows, at_once, high, wide), true};
    }
    bool const down = (args.tactic.raster == TILEWRIGHT_RASTER_ALONG_M) != kSwapped;
    return {rows, columns, matrices, args.tactic.swizzle, down};
  }
};

// One kernel, and where parts of k meet in memory, a second one (`Traits::combining_entry`).
template <class Traits>
struct Host : sm90::ClusteredHost<Traits, Maker<Traits>> {
  using Base = sm90::ClusteredHost<Traits, Maker<Traits>>;
  using Args = typename Base::Args;

  static cudaError_t enqueue(Context const& context, Args const& args, void* workspace, cudaStream_t stream) {
    cudaError_t const error = Base::enqueue(context, args, workspace, stream);
    if (error != cudaSuccess || sm90::parts_of(args.tactic) == 1) {
      return error;
    }
    using Combine = sm90::Combine<typename Traits::Kernel>;
    sm90::Parts const parts = Maker<Traits>::parts(args, workspace);
    sm90::CombineParams params{parts, Combine::shares(parts.count), epilogue_params(args, 0)};
    LaunchShape shape{};
    shape.grid = dim3(static_cast<unsigned>(Combine::blocks(parts)));
    shape.block = dim3(Combine::kThreads);
    shape.cluster = shape.preferred = dim3(1);
    shape.pdl = Traits::kPdl;
    return tilewright::launch<Combining>(context, Traits::combining_entry(), &params, shape, stream);
  }

 private:
  struct Combining {};  // a name for what is remembered of the second kernel
};

}  // namespace tilewright::gemm::lean

#define TILEWRIGHT_LEAN_GEMM_KERNEL(NAME)                                                                            \
  extern "C" __global__ void __launch_bounds__(tilewright::sm90::kCombineThreads)                                    \
      NAME##_combine(__grid_constant__ tilewright::sm90::CombineParams const params) {                               \
    tilewright::sm90::Combine<typename tilewright::NAME::Gemm::Kernel> kernel;                                       \
    kernel(params);                                                                                                  \
  }                                                                                                                  \
  void const* tilewright::NAME::Gemm::combining_entry() { return reinterpret_cast<void const*>(&::NAME##_combine); } \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::gemm::lean::Host, 1, 1024)
