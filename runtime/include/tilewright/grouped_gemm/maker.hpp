// Checks problems of `grouped_gemm` and makes the parameters of a launch: host code of a module's table (host.hpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "tilewright/grouped_gemm/along_k_params.hpp"
#include "tilewright/grouped_gemm/form.hpp"
#include "tilewright/grouped_gemm/params.hpp"
#include "tilewright/sm90/clustered.hpp"
#include "tilewright/sm90/operands.hpp"

namespace tilewright::grouped_gemm {

using Args = tilewright_grouped_gemm_args;
using sm90::ceil_div;

namespace {  // so that g++ inlines functions that are called once

class Maker {
 public:
  Maker(Facts const& facts, Args const& args) : facts_(facts), args_(args), cluster_(sm90::cluster_of(args.tactic)) {}

  sm90::ClusterShape const& cluster() const { return cluster_; }

  bool can_implement() const {
    auto const aligned = [&](int64_t leading, int64_t batch_stride, int vector) {
      return leading % vector == 0 && (args_.groups == 1 || batch_stride % vector == 0);
    };
    int const vector_a = vector_of(a_rows()), vector_b = vector_of(b_rows()), vector_d = 16 / facts_.bytes_d;
    bool const sizes = args_.m > 0 && args_.n > 0 && args_.k > 0 && args_.groups > 0 &&
                       args_.grouping >= TILEWRIGHT_GROUPING_NONE && args_.grouping <= TILEWRIGHT_GROUPING_K_SIZES &&
                       args_.row_alignment > 0 && args_.n % vector_d == 0 &&
                       (mn_a() ? args_.m : args_.k) % vector_a == 0 && (mn_b() ? args_.n : args_.k) % vector_b == 0;
    // A word of factors of 128 of k would hold those of two groups.
    bool const k_groups = !by_k() || (facts_.groups_of_k && facts_.packed_block != 128 && cluster_.splits == 1 &&
                                      args_.k % facts_.tile_k == 0);
    // TMA reads scale factors of rows from addresses that are multiples of 16 bytes.
    bool const starts = args_.grouping != TILEWRIGHT_GROUPING_ENDS || !scaled() || args_.row_alignment % 4 == 0;
    bool const splits = cluster_.splits <= k_tiles() && (facts_.splits || !epilogue_through_smem());
    bool const lone = args_.tactic.cluster_m <= 1 && args_.tactic.cluster_n <= 1 && args_.tactic.splits == 1;
    // Threads store 16 bytes at a time, which must not cross a gap.
    int const head = args_.head_left + args_.head_right;
    bool const heads =
        args_.head_gap == 0 ||
        (args_.head_gap > 0 && facts_.boxes && args_.c == nullptr && args_.head_left >= 0 && args_.head_right >= 0 &&
         head > 0 && args_.n % head == 0 && (args_.head_left | args_.head_right | args_.head_gap) % vector_d == 0);
    return sizes && heads && (facts_.clusters || lone) && sm90::legal(args_.tactic, cluster_) && k_groups && starts &&
           splits && aligned(args_.ld_a, args_.batch_stride_a, vector_a) &&
           aligned(args_.ld_b, args_.batch_stride_b, vector_b) && aligned(args_.ld_d, args_.batch_stride_d, vector_d) &&
           (row_scales() != Scales::kRows || aligned(args_.ld_scale_a, args_.batch_stride_scale_a, 4)) &&
           (column_scales() != Scales::kRows || aligned(args_.ld_scale_b, args_.batch_stride_scale_b, 4)) &&
           int64_t(args_.groups) * ceil_div(args_.m, tile_rows()) * ceil_div(args_.n, tile_columns()) < INT32_MAX;
  }

  // Tensor maps of groups that divide k. Sums of a split k are added up in shared memory and need no workspace.
  int64_t workspace_bytes() const {
    bool const has_form = facts_.forms[static_cast<int>(Form::kDense)] != nullptr;
    int64_t const of_ctas = has_form ? int64_t(most_ctas()) * kCtaMaps : 0;
    return facts_.own_maps && by_k() ? std::max<int64_t>(args_.groups, of_ctas) * 2 * sizeof(CUtensorMap) : 0;
  }

  // How sums reach D.
  Floats floats() const {
    bool const one = args_.groups == 1 || !(by_k() || has_own_rows());  // matrix of D
    bool const same =
        args_.c == args_.d && args_.ld_c == args_.ld_d && (one || args_.batch_stride_c == args_.batch_stride_d);
    return facts_.floats && args_.c == nullptr ? Floats::kBoxes
           : facts_.floats && same             ? Floats::kAdded
                                               : Floats::kThreads;
  }

  // Whether sums go through shared memory: those of a split k, and those to which a C of 16 bits is added, because a
  // loop over subtiles in memory costs no registers.
  bool epilogue_through_smem() const { return cluster_.splits > 1 || (args_.c != nullptr && facts_.boxes); }

  cudaError_t make_params(sm90::Launching const& launching, Form form, HostAlongKParams& params) const {
    params = {};
    bool const own_rows = has_own_rows(), swapped = facts_.swapped;
    int const batch = own_rows ? args_.groups : 1, batch_b = by_k() ? 1 : args_.groups,
              batch_d = by_k() ? args_.groups : batch;
    sm90::Matrices const a = operand(args_.a, args_.m, mn_a(), batch, args_.ld_a, args_.batch_stride_a, a_rows().bits);
    sm90::Matrices const b =
        operand(args_.b, args_.n, mn_b(), batch_b, args_.ld_b, args_.batch_stride_b, b_rows().bits);
    int const bytes_d = facts_.bytes_d;
    sm90::Matrices const d{args_.d, int64_t(args_.n) * bytes_d, args_.m,
                           batch_d, args_.ld_d * bytes_d,       args_.batch_stride_d * bytes_d};

    // A multicast slice divides the tile's rows; for an MN-major operand, the 64 of k in a box.
    params.divide(cluster_, facts_.mn_a ? 64 : facts_.tile_m, facts_.mn_b ? 64 : facts_.tile_n, k_tiles());
    params.epilogue_through_smem = epilogue_through_smem();
    params.groups = make_groups(launching);
    params.heads = {sm90::Divisor(args_.head_gap > 0 ? args_.head_left + args_.head_right : 1), args_.head_right,
                    args_.head_gap, args_.head_gap > 0};
    // Whether more than one column (row) of tiles reads the operand, so that it should stay in L2.
    bool const a_again = params.groups.columns > 1 || (a.one() && batch > 1);
    bool const b_again = args_.m > tile_rows() * down() || (b.one() && batch_b > 1);
    bool const writes = mostly_writes(a, b, d);
    cudaError_t error = swapped ? sm90::encode_operands(params, b, a, b_again, a_again, writes)
                                : sm90::encode_operands(params, a, b, a_again, b_again, writes);
    params.broadcast_a = a.one(), params.broadcast_b = b.one();  // the caller's
    set_epilogue(params.epilogue);
    if (column_scales() == Scales::kBlocks) {
      (swapped ? params.blocks_a : params.blocks_b) = block_scales();
    }
    auto const encode = [&error](CUtensorMap& map, sm90::Matrices const& matrices, Box const& box, int bytes = 1) {
      if (error == cudaSuccess) {
        error = sm90::encode_matrices(map, matrices, box.bytes, box.rows, box.swizzle, bytes);
      }
    };
    // Rows of operands that are not 128 bytes of bytes.
    auto const encode_rows = [&](CUtensorMap& map, sm90::Matrices const& matrices, StageRows const& rows, int count) {
      if (rows.bits < 8 || rows.bytes != 128) {
        bool const whole = rows.bytes == 128;
        encode(map, matrices, {rows.bytes, count, whole ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B});
      }
    };
    encode_rows(swapped ? params.b : params.a, a, a_rows(), tile_rows());
    encode_rows(swapped ? params.a : params.b, b, b_rows(), tile_columns());
    // TMA's rows are columns of scale factors: those of one block of k, or a column of words.
    bool const words_of_lines = facts_.packed_block == 128;
    int const lines = ceil_div(args_.k, words_of_lines ? 4 * 128 : sm90::kScaleBlock);
    auto const encode_factors = [&](CUtensorMap& map, float const* factors, int rows, int matrices, int64_t leading,
                                    int64_t batch_stride, int box) {
      encode(map, {factors, int64_t(rows) * 4, lines, matrices, leading * 4, batch_stride * 4},
             {box * 4, words_of_lines ? 1 : facts_.lines, CU_TENSOR_MAP_SWIZZLE_NONE}, 4);
    };
    if (row_scales() == Scales::kRows) {
      encode_factors(swapped ? params.scales_b : params.scales_a, args_.scale_a, args_.m, batch, args_.ld_scale_a,
                     args_.batch_stride_scale_a, tile_rows());
    }
    if (column_scales() == Scales::kRows) {
      encode_factors(swapped ? params.scales_a : params.scales_b, args_.scale_b, args_.n, batch_b, args_.ld_scale_b,
                     args_.batch_stride_scale_b, tile_columns());
    }
    if (facts_.boxes) {
      encode(params.d, d, facts_.box);
    }
    if (facts_.floats) {
      params.floats = floats();
      encode(params.d, d, facts_.float_box, 4);
    }
    if (facts_.own_maps && by_k() && error == cudaSuccess) {
      error = form == Form::kAny ? make_group_maps(launching, params) : give_room_for_maps(launching, params);
    }
    return error;
  }

 private:
  Facts const& facts_;
  Args const& args_;
  sm90::ClusterShape const cluster_;

  bool by_k() const { return args_.grouping == TILEWRIGHT_GROUPING_K_SIZES; }
  // Whether each group has matrices of A and D of its own.
  bool has_own_rows() const {
    return args_.grouping == TILEWRIGHT_GROUPING_NONE || args_.grouping == TILEWRIGHT_GROUPING_ROWS_VALID;
  }
  bool scaled() const { return facts_.scales_a != Scales::kNone; }
  int k_tiles() const { return ceil_div(args_.k, facts_.tile_k); }

  // In the caller's terms.
  bool mn_a() const { return facts_.swapped ? facts_.mn_b : facts_.mn_a; }
  bool mn_b() const { return facts_.swapped ? facts_.mn_a : facts_.mn_b; }
  StageRows const& a_rows() const { return facts_.swapped ? facts_.rows_b : facts_.rows_a; }
  StageRows const& b_rows() const { return facts_.swapped ? facts_.rows_a : facts_.rows_b; }
  Scales row_scales() const { return facts_.swapped ? facts_.scales_b : facts_.scales_a; }
  Scales column_scales() const { return facts_.swapped ? facts_.scales_a : facts_.scales_b; }
  int tile_rows() const { return facts_.swapped ? facts_.tile_n : facts_.tile_m; }
  int tile_columns() const { return facts_.swapped ? facts_.tile_m : facts_.tile_n; }
  // How many CTAs of a cluster compute tiles that lie below each other in D, and side by side.
  int down() const { return facts_.swapped ? cluster_.n : cluster_.m; }
  int across() const { return facts_.swapped ? cluster_.m : cluster_.n; }

  // Elements of A or B in 16 bytes, TMA's alignment.
  static int vector_of(StageRows const& rows) { return 128 / rows.bits; }

  // An operand of `rows` rows of k elements; MN-major, k rows of `rows` elements.
  sm90::Matrices operand(void const* address, int rows, bool mn_major, int batch, int64_t leading, int64_t batch_stride,
                         int bits) const {
    return {address,
            int64_t(mn_major ? rows : args_.k) * bits / 8,
            mn_major ? args_.k : rows,
            batch,
            leading * bits / 8,
            batch_stride * bits / 8};
  }

  // Whether D and C have at least four times the bytes of the operands, as far as the host knows.
  bool mostly_writes(sm90::Matrices const& a, sm90::Matrices const& b, sm90::Matrices const& d) const {
    auto const bytes = [](sm90::Matrices const& matrices) {
      return matrices.row_bytes * matrices.rows * matrices.batch;
    };
    return args_.grouping != TILEWRIGHT_GROUPING_ROWS_VALID &&
           bytes(d) * (args_.c != nullptr ? 2 : 1) >= 4 * (bytes(a) + bytes(b));
  }

  // D = sum + C, both of D's type.
  void set_epilogue(sm90::EpilogueParams& epilogue) const {
    epilogue.c = args_.c, epilogue.d = args_.d;
    epilogue.ld_c = args_.ld_c, epilogue.ld_d = args_.ld_d;
    epilogue.batch_stride_c = args_.batch_stride_c, epilogue.batch_stride_d = args_.batch_stride_d;
    epilogue.alpha = epilogue.beta = 1.0f;
    epilogue.m = args_.m, epilogue.n = args_.n;
    epilogue.n_boxes = facts_.boxes ? args_.n : 0;
    epilogue.type_c = facts_.addend_d;
  }

  // Where B's scale factors of 128x128 blocks lie.
  sm90::BlockScales block_scales() const {
    bool const k_major = args_.scales_k_major != 0;
    return {args_.scale_b,
            args_.batch_stride_scale_b,
            k_major ? args_.ld_scale_b : 1,
            static_cast<int>(k_major ? 1 : args_.ld_scale_b),
            ceil_div(args_.n, sm90::kScaleBlock),
            ceil_div(args_.k, sm90::kScaleBlock)};
  }

  // An upper bound of a grid's CTAs: those that stand, and those that start late, which are fewer than two rounds
  // (make_shares).
  int most_ctas() const { return 3 * args_.tactic.sm_count; }

  // Lets CTAs make the maps of groups (cta_maps.hpp).
  cudaError_t give_room_for_maps(sm90::Launching const& launching, HostAlongKParams& params) const {
    params.of_k = {static_cast<char const*>(args_.a), static_cast<char const*>(args_.b)};
    params.cta_maps = static_cast<CUtensorMap*>(launching.workspace);
    bool const fits = params.groups.shares.clusters * cluster_.size() <= most_ctas();
    return fits ? cudaSuccess : cudaErrorInvalidConfiguration;
  }

  // Enqueues a kernel that derives each group's maps from those of all of k in `params`.
  cudaError_t make_group_maps(sm90::Launching const& launching, HostParams& params) const {
    params.group_maps = static_cast<CUtensorMap*>(launching.workspace);
    PartsOfK parts{&params.a, &params.b,     args_.a,      args_.b, args_.m,
                   args_.n,   args_.group_k, args_.groups, args_.k, static_cast<CUtensorMap*>(launching.workspace)};
    if (facts_.swapped) {
      parts.address_a = args_.b, parts.address_b = args_.a;
      parts.rows_a = args_.n, parts.rows_b = args_.m;
    }
    return facts_.write_maps(parts, launching.stream);
  }

  // An upper bound of the blocks of tiles, whatever the groups are.
  int64_t most_blocks(Groups const& groups, int rows) const {
    switch (args_.grouping) {
      case TILEWRIGHT_GROUPING_ROWS_VALID:
        return int64_t(args_.groups) * rows * groups.columns;
      case TILEWRIGHT_GROUPING_ENDS:
        return (int64_t(args_.groups) + rows) * groups.columns;
      default:
        return groups.raster.blocks;
    }
  }

  // Divides the blocks among clusters (sm90::Shares). Where the host knows the blocks and they take long, clusters that
  // start late compute the last ones: a start takes 2.5 us on an H200, and SMs that compute equally many tiles end up
  // to 8 % apart. To leave one round of 44 to late clusters is as good as to leave three.
  sm90::Shares make_shares(Groups const& groups, int rows, sm90::Launching const& launching) const {
    constexpr int kLateRounds = 1;  // rounds of all standing clusters that are left to late ones
    constexpr int64_t kLongTile = 12'000, kLongRun = 450'000;  // clocks of the tensor cores: a tile's, a cluster's
    int64_t const blocks = most_blocks(groups, rows);
    int const standing = static_cast<int>(blocks < launching.at_once ? blocks : launching.at_once);
    int const rounds = static_cast<int>(blocks / standing);
    int64_t const bytes_k = int64_t(by_k() ? args_.k / args_.groups : args_.k) * facts_.element_bytes;
    int64_t const clocks = bytes_k * facts_.tile_m * facts_.tile_n / 4096;
    bool const unknown = args_.grouping == TILEWRIGHT_GROUPING_ROWS_VALID || args_.grouping == TILEWRIGHT_GROUPING_ENDS;
    if (unknown || !launching.all || rounds <= kLateRounds || clocks < kLongTile || rounds * clocks < kLongRun) {
      return {standing, standing, groups.raster.blocks};
    }
    int const in_turns = (rounds - kLateRounds) * standing;
    return {standing + groups.raster.blocks - in_turns, standing, in_turns};
  }

  Groups make_groups(sm90::Launching const& launching) const {
    Groups groups{};
    groups.grouping = args_.grouping;
    groups.layout = args_.grouping == TILEWRIGHT_GROUPING_ROW_INDEX ? args_.group_of_row
                    : args_.grouping == TILEWRIGHT_GROUPING_ENDS    ? args_.group_ends
                    : args_.grouping == TILEWRIGHT_GROUPING_K_SIZES ? args_.group_k
                                                                    : args_.rows_valid;
    groups.k = args_.k;
    groups.k_unit = facts_.tile_k;
    groups.zeroes = args_.zero_padding != 0;
    groups.groups = args_.groups;
    groups.rows = args_.m;
    groups.alignment = args_.row_alignment;
    int64_t const high = int64_t(tile_rows()) * down(), wide = int64_t(tile_columns()) * across();
    int const rows = ceil_div(args_.m, static_cast<int>(high));
    groups.columns = ceil_div(args_.n, static_cast<int>(wide));
    bool const raster_given = args_.tactic.raster != TILEWRIGHT_RASTER_HEURISTIC;
    groups.swizzle =
        raster_given ? args_.tactic.swizzle : sm90::Raster::best_swizzle(rows, launching.at_once, high, wide);
    bool const group_is_matrix = args_.grouping == TILEWRIGHT_GROUPING_NONE || by_k();
    groups.raster = sm90::Raster(rows, groups.columns, group_is_matrix ? args_.groups : 1, groups.swizzle,
                                 !raster_given || args_.tactic.raster == TILEWRIGHT_RASTER_ALONG_M);
    groups.shares = make_shares(groups, rows, launching);
    return groups;
  }
};

}  // namespace

}  // namespace tilewright::grouped_gemm
