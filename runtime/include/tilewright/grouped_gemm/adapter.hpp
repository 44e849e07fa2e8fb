// The header of generated `grouped_gemm` kernels for sm_90a: the kernel, and its adapter to `tilewright_kernel`.
#pragma once

#include "tilewright/grouped_gemm/args.h"
#include "tilewright/grouped_gemm/form_host.hpp"
#include "tilewright/grouped_gemm/kernel.hpp"
#include "tilewright/sm90/clustered.hpp"
#include "tilewright/sm90/operands.hpp"

namespace tilewright::grouped_gemm {

using sm90::ceil_div;

// Writes the tensor maps of A and B for each group's part of k, in which rows are as long as the group's k. One warp
// writes A's, the other one B's; a thread writes the map of a group. `kUnit`: groups have multiples of it.
//
// The product that follows may start at once: it waits for the end of this kernel before it reads a map. The product
// before may still read the maps that lie in the same workspace, so this kernel waits for its end.
template <class Traits, int kUnit>
__global__ void write_parts(CUtensorMap const a, CUtensorMap const b, char const* address_a, char const* address_b,
                            int rows_a, int rows_b, int const* sizes, int groups, int k, CUtensorMap* maps) {
  constexpr int kLanes = 32;
  if constexpr (Traits::Kernel::kPdl) {
    sm90::allow_next_kernel();
    sm90::wait_for_previous_kernel();
  }
  int const lane = threadIdx.x % kLanes, of_b = threadIdx.x / kLanes;
  int k_begin = 0;  // of the next group
  for (int first = 0; first < groups; first += kLanes) {
    int const group = first + lane;
    int const requested = group < groups ? sizes[group] : 0;
    int begin = 0, size = 0;  // of the thread's group
#pragma unroll
    for (int i = 0; i < kLanes; ++i) {
      int const next = size_of_group(__shfl_sync(~0u, requested, i), k - k_begin, kUnit);
      begin = i == lane ? k_begin : begin;
      size = i == lane ? next : size;
      k_begin += next;
    }
    if (size > 0) {
      CUtensorMap* const map = &maps[group * 2 + of_b];
      *map = of_b ? b : a;
      sm90::replace_map(map, (of_b ? address_b : address_a) + int64_t(begin) * (of_b ? rows_b : rows_a), size);
    }
  }
}

// Checks problems and makes the parameters of a launch.
template <class Traits>
struct Maker {
  using Args = tilewright_grouped_gemm_args;
  using Kernel = typename Traits::Kernel;
  static constexpr bool kSwapped = Kernel::kSwapped;
  static constexpr int kElementBytes = Kernel::ElementA::kBytes;
  static constexpr int kVector = 16 / kElementBytes;  // elements of A and B in 16 bytes, TMA's alignment
  static constexpr int kVectorD = 16 / Kernel::ElementD::kBytes;
  static constexpr int kTileK = Kernel::kTileBytesK / kElementBytes;
  // Whether the caller's operands are MN-major.
  static constexpr bool kMnA = kSwapped ? Kernel::kMnB : Kernel::kMnA;
  static constexpr bool kMnB = kSwapped ? Kernel::kMnA : Kernel::kMnB;
  static int k_tiles(Args const& args) { return ceil_div(args.k, kTileK); }

  // How many CTAs of a cluster compute tiles that lie below each other in D, and side by side.
  static int down(sm90::ClusterShape const& cluster) { return kSwapped ? cluster.n : cluster.m; }
  static int across(sm90::ClusterShape const& cluster) { return kSwapped ? cluster.m : cluster.n; }

  // Whether sums go through shared memory: those of a split k, and those to which a C of 16-bit elements is added,
  // because a loop over subtiles there costs no registers.
  static bool epilogue_through_smem(Args const& args, sm90::ClusterShape const& cluster) {
    return cluster.splits > 1 || (args.c != nullptr && Kernel::Store::kBoxes);
  }

  static bool can_implement(Args const& args) {
    sm90::ClusterShape const cluster = sm90::cluster_of(args.tactic);
    auto const aligned = [&](int64_t leading, int64_t batch_stride, int vector) {
      return leading % vector == 0 && (args.groups == 1 || batch_stride % vector == 0);
    };
    bool const sizes = args.m > 0 && args.n > 0 && args.k > 0 && args.groups > 0 &&
                       args.grouping >= TILEWRIGHT_GROUPING_NONE && args.grouping <= TILEWRIGHT_GROUPING_K_SIZES &&
                       args.row_alignment > 0 && args.n % kVectorD == 0 && (kMnA ? args.m : args.k) % kVector == 0 &&
                       (kMnB ? args.n : args.k) % kVector == 0;
    bool const by_k = args.grouping == TILEWRIGHT_GROUPING_K_SIZES;
    bool const k_groups = !by_k || (Kernel::kGroupsOfK && cluster.splits == 1 && args.k % kTileK == 0);
    // TMA reads scale factors of rows from addresses that are multiples of 16 bytes.
    bool const starts = args.grouping != TILEWRIGHT_GROUPING_ENDS || !Kernel::kScaled || args.row_alignment % 4 == 0;
    bool const splits = cluster.splits <= k_tiles(args) && (Kernel::kSplits || !epilogue_through_smem(args, cluster));
    // Threads store 16 bytes at a time, which must not cross a gap.
    int const head = args.head_left + args.head_right;
    bool const heads =
        args.head_gap == 0 || (args.head_gap > 0 && Kernel::Store::kBoxes && args.c == nullptr && args.head_left >= 0 &&
                               args.head_right >= 0 && head > 0 && args.n % head == 0 &&
                               (args.head_left | args.head_right | args.head_gap) % kVectorD == 0);
    return sizes && heads && sm90::legal(args.tactic, cluster) && k_groups && starts && splits &&
           aligned(args.ld_a, args.batch_stride_a, kVector) && aligned(args.ld_b, args.batch_stride_b, kVector) &&
           aligned(args.ld_d, args.batch_stride_d, kVectorD) &&
           (Kernel::kRowScales != Scales::kRows || aligned(args.ld_scale_a, args.batch_stride_scale_a, 4)) &&
           (Kernel::kColumnScales != Scales::kRows || aligned(args.ld_scale_b, args.batch_stride_scale_b, 4)) &&
           int64_t(args.groups) * ceil_div(args.m, Kernel::kTileRows) * ceil_div(args.n, Kernel::kTileColumns) <
               INT32_MAX;
  }

  // Tensor maps of groups that divide k. Sums of a split k are added up in shared memory and need no workspace.
  static int64_t workspace_bytes(Args const& args) {
    bool const maps = Kernel::kOwnMaps && args.grouping == TILEWRIGHT_GROUPING_K_SIZES;
    return maps ? int64_t(args.groups) * 2 * sizeof(CUtensorMap) : 0;
  }

  static int clusters(typename Kernel::Params const& params) { return params.groups.shares.clusters; }

  static cudaError_t make_params(Args const& args, sm90::Launching const& launching, typename Kernel::Params& params) {
    constexpr int kD = Kernel::ElementD::kBytes;
    sm90::ClusterShape const& cluster = launching.cluster;
    params = {};
    bool const own_rows = args.grouping == TILEWRIGHT_GROUPING_NONE || args.grouping == TILEWRIGHT_GROUPING_ROWS_VALID;
    bool const by_k = args.grouping == TILEWRIGHT_GROUPING_K_SIZES;
    int const batch = own_rows ? args.groups : 1, batch_b = by_k ? 1 : args.groups,
              batch_d = by_k ? args.groups : batch;
    int const k_blocks = ceil_div(args.k, sm90::kScaleBlock);
    sm90::Matrices const caller_a{args.a,
                                  int64_t(kMnA ? args.m : args.k) * kElementBytes,
                                  kMnA ? args.k : args.m,
                                  batch,
                                  args.ld_a * kElementBytes,
                                  args.batch_stride_a * kElementBytes};
    sm90::Matrices const caller_b{args.b,
                                  int64_t(kMnB ? args.n : args.k) * kElementBytes,
                                  kMnB ? args.k : args.n,
                                  batch_b,
                                  args.ld_b * kElementBytes,
                                  args.batch_stride_b * kElementBytes};
    sm90::Matrices const d{args.d, int64_t(args.n) * kD, args.m, batch_d, args.ld_d * kD, args.batch_stride_d * kD};
    // TMA's rows are columns of scale factors: those of one block of k.
    sm90::Matrices const scales_a{args.scale_a, int64_t(args.m) * 4, k_blocks,
                                  batch,        args.ld_scale_a * 4, args.batch_stride_scale_a * 4};
    sm90::Matrices const scales_b{args.scale_b, int64_t(args.n) * 4, k_blocks,
                                  batch_b,      args.ld_scale_b * 4, args.batch_stride_scale_b * 4};

    // A multicast slice divides the tile's rows; for an MN-major operand, the 64 of k in a box.
    params.divide(cluster, Kernel::kMnA ? 64 : Kernel::TileM, Kernel::kMnB ? 64 : Kernel::TileN, k_tiles(args));
    params.epilogue_through_smem = epilogue_through_smem(args, cluster);
    params.groups = groups_of(args, cluster, launching);
    params.heads = {sm90::Divisor(args.head_gap > 0 ? args.head_left + args.head_right : 1), args.head_right,
                    args.head_gap, args.head_gap > 0};
    // An operand that one column (row) of tiles reads only once need not stay in L2.
    bool const a_again = params.groups.columns > 1 || (caller_a.one() && batch > 1);
    bool const b_again = args.m > Kernel::kTileRows * down(cluster) || (caller_b.one() && batch_b > 1);
    bool const writes = mostly_writes(args, caller_a, caller_b, d);
    cudaError_t error = kSwapped ? sm90::encode_operands(params, caller_b, caller_a, b_again, a_again, writes)
                                 : sm90::encode_operands(params, caller_a, caller_b, a_again, b_again, writes);
    params.broadcast_a = caller_a.one(), params.broadcast_b = caller_b.one();  // the caller's
    set_epilogue(args, params.epilogue);
    if (Kernel::kColumnScales == Scales::kBlocks) {
      (kSwapped ? params.blocks_a : params.blocks_b) = block_scales(args);
    }
    auto const encode = [&error](CUtensorMap& map, sm90::Matrices const& matrices, int box_bytes, int box_rows,
                                 CUtensorMapSwizzle swizzle, int bytes = 1) {
      if (error == cudaSuccess) {
        error = sm90::encode_matrices(map, matrices, box_bytes, box_rows, swizzle, bytes);
      }
    };
    auto const factors = [&](CUtensorMap& map, sm90::Matrices const& matrices, int rows) {
      encode(map, matrices, rows * 4, Kernel::Boxes, CU_TENSOR_MAP_SWIZZLE_NONE, 4);
    };
    if (Kernel::kRowScales == Scales::kRows) {
      factors(kSwapped ? params.scales_b : params.scales_a, scales_a, Kernel::kTileRows);
    }
    if (Kernel::kColumnScales == Scales::kRows) {
      factors(kSwapped ? params.scales_a : params.scales_b, scales_b, Kernel::kTileColumns);
    }
    if (Kernel::Store::kBoxes) {
      encode(params.d, d, Kernel::Store::kBoxBytes, Kernel::Store::kBoxRows, Kernel::Store::kSwizzle);
    }
    if constexpr (Kernel::kFloats) {
      bool const same =
          args.c == args.d && args.ld_c == args.ld_d && (batch_d == 1 || args.batch_stride_c == args.batch_stride_d);
      params.floats = args.c == nullptr ? Floats::kBoxes : same ? Floats::kAdded : Floats::kThreads;
      encode(params.d, d, Kernel::FloatBoxes::kBoxBytes, Kernel::FloatBoxes::kBoxRows, Kernel::FloatBoxes::kSwizzle, 4);
    }
    if constexpr (Kernel::kOwnMaps) {
      if (error == cudaSuccess) {
        error = make_group_maps(args, launching, params);
      }
    }
    return error;
  }

 private:
  // Whether D and C have at least four times the bytes of the operands, as far as the host knows.
  static bool mostly_writes(Args const& args, sm90::Matrices const& a, sm90::Matrices const& b,
                            sm90::Matrices const& d) {
    auto const bytes = [](sm90::Matrices const& matrices) {
      return matrices.row_bytes * matrices.rows * matrices.batch;
    };
    return args.grouping != TILEWRIGHT_GROUPING_ROWS_VALID &&
           bytes(d) * (args.c != nullptr ? 2 : 1) >= 4 * (bytes(a) + bytes(b));
  }

  // D = sum + C, both of D's type.
  static void set_epilogue(Args const& args, sm90::EpilogueParams& epilogue) {
    epilogue.c = args.c, epilogue.d = args.d;
    epilogue.ld_c = args.ld_c, epilogue.ld_d = args.ld_d;
    epilogue.batch_stride_c = args.batch_stride_c, epilogue.batch_stride_d = args.batch_stride_d;
    epilogue.alpha = epilogue.beta = 1.0f;
    epilogue.m = args.m, epilogue.n = args.n;
    epilogue.n_boxes = Kernel::Store::kBoxes ? args.n : 0;
    epilogue.type_c = Kernel::ElementD::kAddend;
  }

  // Where B's scale factors of 128x128 blocks lie.
  static sm90::BlockScales block_scales(Args const& args) {
    bool const k_major = args.scales_k_major != 0;
    return {args.scale_b,
            args.batch_stride_scale_b,
            k_major ? args.ld_scale_b : 1,
            static_cast<int>(k_major ? 1 : args.ld_scale_b),
            ceil_div(args.n, sm90::kScaleBlock),
            ceil_div(args.k, sm90::kScaleBlock)};
  }

  // Enqueues `write_parts`, which derives each group's maps from those of all of k in `params`.
  static cudaError_t make_group_maps(Args const& args, sm90::Launching const& launching,
                                     typename Kernel::Params& params) {
    if (args.grouping != TILEWRIGHT_GROUPING_K_SIZES) {
      return cudaSuccess;
    }
    auto* const maps = static_cast<CUtensorMap*>(launching.workspace);
    auto const *const a = static_cast<char const*>(args.a), *const b = static_cast<char const*>(args.b);
    cudaLaunchAttribute pdl{};
    pdl.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    pdl.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(1);
    config.blockDim = dim3(64);
    config.stream = launching.stream;
    config.attrs = &pdl;
    config.numAttrs = Kernel::kPdl ? 1 : 0;
    params.group_maps = maps;
    return cudaLaunchKernelEx(&config, write_parts<Traits, kTileK>, params.a, params.b, kSwapped ? b : a,
                              kSwapped ? a : b, kSwapped ? args.n : args.m, kSwapped ? args.m : args.n, args.group_k,
                              args.groups, args.k, maps);
  }

  // An upper bound of the blocks of tiles, whatever the groups are.
  static int64_t most_blocks(Args const& args, Groups const& groups, int rows) {
    switch (args.grouping) {
      case TILEWRIGHT_GROUPING_ROWS_VALID:
        return int64_t(args.groups) * rows * groups.columns;
      case TILEWRIGHT_GROUPING_ENDS:
        return (int64_t(args.groups) + rows) * groups.columns;
      default:
        return groups.raster.blocks;
    }
  }

  // Where the host knows the blocks and they take long, clusters that start late compute the last blocks: a start takes
  // 2.5 us on an H200, and SMs that compute equally many tiles end up to 8 % apart. One round of 44 for late clusters
  // is as good as three.
  static sm90::Shares shares_of(Args const& args, Groups const& groups, int rows, sm90::Launching const& launching) {
    constexpr int kLateRounds = 1;  // rounds of all standing clusters that are left to late ones
    constexpr int64_t kLongTile = 12'000, kLongRun = 450'000;  // clocks of the tensor cores: a tile's, a cluster's
    int64_t const blocks = most_blocks(args, groups, rows);
    int const standing = static_cast<int>(blocks < launching.at_once ? blocks : launching.at_once);
    int const rounds = static_cast<int>(blocks / standing);
    bool const by_k = args.grouping == TILEWRIGHT_GROUPING_K_SIZES;
    int64_t const bytes_k = int64_t(by_k ? args.k / args.groups : args.k) * kElementBytes;
    int64_t const clocks = bytes_k * Kernel::TileM * Kernel::TileN / 4096;
    bool const unknown = args.grouping == TILEWRIGHT_GROUPING_ROWS_VALID || args.grouping == TILEWRIGHT_GROUPING_ENDS;
    if (unknown || !launching.all || rounds <= kLateRounds || clocks < kLongTile || rounds * clocks < kLongRun) {
      return {standing, standing, groups.raster.blocks};
    }
    int const in_turns = (rounds - kLateRounds) * standing;
    return {standing + groups.raster.blocks - in_turns, standing, in_turns};
  }

  static Groups groups_of(Args const& args, sm90::ClusterShape const& cluster, sm90::Launching const& launching) {
    Groups groups{};
    groups.grouping = args.grouping;
    groups.layout = args.grouping == TILEWRIGHT_GROUPING_ROW_INDEX ? args.group_of_row
                    : args.grouping == TILEWRIGHT_GROUPING_ENDS    ? args.group_ends
                    : args.grouping == TILEWRIGHT_GROUPING_K_SIZES ? args.group_k
                                                                   : args.rows_valid;
    groups.k = args.k;
    groups.k_unit = kTileK;
    groups.zeroes = args.zero_padding != 0;
    groups.groups = args.groups;
    groups.rows = args.m;
    groups.alignment = args.row_alignment;
    int const rows = ceil_div(args.m, Kernel::kTileRows * down(cluster));
    groups.columns = ceil_div(args.n, Kernel::kTileColumns * across(cluster));
    int64_t const high = int64_t(Kernel::kTileRows) * down(cluster);
    int64_t const wide = int64_t(Kernel::kTileColumns) * across(cluster);
    bool const raster_given = args.tactic.raster != TILEWRIGHT_RASTER_HEURISTIC;
    groups.swizzle =
        raster_given ? args.tactic.swizzle : sm90::Raster::best_swizzle(rows, launching.at_once, high, wide);
    bool const group_is_matrix =
        args.grouping == TILEWRIGHT_GROUPING_NONE || args.grouping == TILEWRIGHT_GROUPING_K_SIZES;
    groups.raster = sm90::Raster(rows, groups.columns, group_is_matrix ? args.groups : 1, groups.swizzle,
                                 !raster_given || args.tactic.raster == TILEWRIGHT_RASTER_ALONG_M);
    groups.shares = shares_of(args, groups, rows, launching);
    return groups;
  }
};

template <class Traits>
using Host = FormHost<Traits, Maker>;

}  // namespace tilewright::grouped_gemm

// Declared first as one that is launched in clusters: see TILEWRIGHT_LEAN_GEMM_KERNEL.
#define TILEWRIGHT_GROUPED_GEMM_KERNEL(NAME)                                                \
  extern "C" __global__ void __cluster_dims__()                                             \
      NAME(__grid_constant__ typename tilewright::NAME::Gemm::Kernel::Params const params); \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::grouped_gemm::Host, 1, 1024)
