// The host code of lean `gemm` kernels (lean_params.hpp), compiled once, in a module's table.
#pragma once

#include <cstdint>

#include "tilewright/adapter.hpp"
#include "tilewright/any_kernel.hpp"
#include "tilewright/gemm/epilogue_params.hpp"
#include "tilewright/gemm/lean_operands.hpp"
#include "tilewright/gemm/lean_params.hpp"
#include "tilewright/sm90/clustered.hpp"

namespace tilewright::gemm::lean {

using Args = tilewright_gemm_args;
using sm90::ceil_div;

namespace {  // so that g++ inlines functions that are called once

// Whether a plain form that shares no operand is launched without clusters, which begins earlier than clusters of one.
// But an H200 places CTAs without clusters on other SMs: where the last of several waves has a twelfth to four
// fifths of the SMs, products took 2 % longer, and some 8 % (benchmarks/results/plain_forms.md).
constexpr bool is_launched_without_clusters(int cluster_size, int blocks, int at_once) {
  int const last = blocks % at_once;
  return cluster_size == 1 && (blocks < at_once || 12 * last < at_once || 5 * last > 4 * at_once);
}

// Checks a problem, makes the parameters of its launch, and launches it. A split k is added up through the shared
// memory of a cluster, or through a workspace.
class Maker {
 public:
  Maker(Facts const& facts, Args const& args)
      : facts_(facts),
        args_(args),
        cluster_(sm90::cluster_of(args.tactic)),
        rows_(facts.swapped ? args.n : args.m),
        columns_(facts.swapped ? args.m : args.n) {}

  bool can_implement() const {
    auto const aligned = [&](int64_t leading, int64_t batch_stride) {
      return fits(leading, batch_stride, facts_.bytes);
    };
    bool const sizes = args_.m > 0 && args_.n > 0 && args_.k > 0 && args_.batch > 0;
    int const splits = args_.tactic.splits, count = sm90::parts_of(args_.tactic);
    bool const plain = splits == 1 && plain_epilogue(columns_in_boxes(), c_in_boxes());
    return sizes && sm90::legal(args_.tactic, cluster_) && (splits == 1 || splits <= k_tiles()) &&
           known_epilogue(args_, facts_.activation) && (facts_.epilogue_through_smem || plain || count > 1) &&
           (!is_plain_form() || (count == 1 && unscaled())) && (!is_split_form() || runs_split_form(count)) &&
           aligned(args_.ld_a, args_.batch_stride_a) && aligned(args_.ld_b, args_.batch_stride_b) &&
           tiles() * count < INT32_MAX && (count == 1 || combining_blocks(parts(nullptr)) < INT32_MAX);
  }

  int64_t workspace_bytes() const {
    int const count = sm90::parts_of(args_.tactic);
    return count > 1 ? int64_t(count) * parts(nullptr).tiles() * facts_.sums * int64_t(sizeof(float4)) : 0;
  }

  // `at_once`: clusters that run at once.
  cudaError_t make_params(int at_once, void* workspace, Params& params) const {
    // The kernel's own operands: the caller's B and A where they are swapped.
    sm90::Matrices const a = facts_.swapped ? operand(args_.b, rows_, facts_.mn_a, args_.ld_b, args_.batch_stride_b)
                                            : operand(args_.a, rows_, facts_.mn_a, args_.ld_a, args_.batch_stride_a);
    sm90::Matrices const b = facts_.swapped ? operand(args_.a, columns_, facts_.mn_b, args_.ld_a, args_.batch_stride_a)
                                            : operand(args_.b, columns_, facts_.mn_b, args_.ld_b, args_.batch_stride_b);

    // A multicast slice divides the tile's rows; for an MN-major operand, the 64 of k in a box.
    params.divide(cluster_, facts_.mn_a ? 64 : facts_.tile_m, facts_.mn_b ? 64 : facts_.tile_n, k_tiles());
    if (!facts_.mn_a) {
      params.slices_a = sm90::Slices::of(facts_.tile_m, cluster_.n, rows_);
    }
    if (!facts_.mn_b) {
      params.slices_b = sm90::Slices::of(facts_.tile_n, cluster_.m, columns_);
    }
    params.parts = parts(workspace);
    if (params.parts.count > 1) {  // the parts divide k, not the cluster
      params.k_tiles_per_split = k_tiles() / params.parts.count;
      params.larger_splits = k_tiles() % params.parts.count;
    }
    params.stage_bytes = facts_.tile_k * facts_.bytes *
                         ((facts_.mn_a ? facts_.tile_m : params.slices_a.loaded()) +
                          (facts_.mn_b ? ceil_div(facts_.tile_n, 64) * 64 : params.slices_b.loaded()));
    int const down = blocks_down(), across = blocks_across();
    params.raster = raster(at_once, down, across);
    // Whether more than one column (row) of tiles reads the operand.
    bool const a_again = across > 1 || (a.one() && args_.batch > 1);
    bool const b_again = down > 1 || (b.one() && args_.batch > 1);
    if (cudaError_t const error = encode_lean_operands(params, a, b, a_again, b_again); error != cudaSuccess) {
      return error;
    }
    int const bytes = facts_.bytes_d;
    int const n_boxes = reinterpret_cast<uintptr_t>(args_.d) % 16 == 0 ? columns_in_boxes() : 0;
    sm90::Matrices const c{const_cast<void*>(args_.c), int64_t(args_.n) * bytes,    args_.m, args_.batch,
                           args_.ld_c * bytes,         args_.batch_stride_c * bytes};
    bool const c_by_tma = c_in_boxes() && c.aligned();
    params.epilogue_through_smem = args_.tactic.splits > 1 || !plain_epilogue(n_boxes, c_by_tma);
    params.c_by_tma = !params.epilogue_through_smem && args_.beta != 0.0f;
    params.broadcast_c = c.one();
    if (params.epilogue_through_smem && !facts_.epilogue_through_smem && params.parts.count == 1) {
      return cudaErrorInvalidValue;
    }
    params.epilogue = epilogue_params(args_, n_boxes);
    if (params.parts.count > 1) {
      params.epilogue.c = nullptr;  // the second kernel adds C
    }
    if (params.c_by_tma) {
      if (cudaError_t const error = encode(params.c, c, facts_.box); error != cudaSuccess) {
        return error;
      }
    }
    return encode_d(params);
  }

  // Encodes the map of the columns of D that TMA stores, if there are any.
  cudaError_t encode_d(Params& params) const {
    int const columns = params.epilogue.n_boxes, bytes = facts_.bytes_d;
    if (columns == 0) {
      return cudaSuccess;
    }
    sm90::Matrices const d{args_.d,     int64_t(columns) * bytes, args_.m,
                           args_.batch, args_.ld_d * bytes,       args_.batch_stride_d * bytes};
    return encode(params.d, d, params.epilogue_through_smem ? facts_.shared_box : facts_.box);
  }

  // Enqueues the kernel, and a second one if parts of k are added up through the workspace.
  // `make_params(at_once, params)` makes the kernel's parameters, which are a `KernelParams`.
  template <class KernelParams, class MakeParams>
  cudaError_t enqueue(Context const& context, cudaStream_t stream, MakeParams const& make_params) const {
    LaunchShape shape{};
    shape.block = dim3(facts_.threads);
    shape.smem_bytes = facts_.shared_bytes;
    shape.pdl = facts_.pdl;
    void const* const entry = facts_.entry();
    int at_once = 0;
    cudaError_t error = sm90::prepare<AnyKernel>(context, entry, args_.tactic, cluster_, shape, at_once);
    if (error != cudaSuccess) {
      return error;
    }
    KernelParams params;
    error = make_params(at_once, params);
    if (error != cudaSuccess) {
      return error;
    }
    int const blocks = params.raster.blocks;
    shape.grid = is_split_form() ? split_grid() : dim3((blocks < at_once ? blocks : at_once) * cluster_.size());
    bool const alone = is_plain_form() && is_launched_without_clusters(cluster_.size(), blocks, at_once);
    error = alone ? launch_without_clusters(context, entry, &params, shape, stream)
                  : tilewright::launch<AnyKernel>(context, entry, &params, shape, stream);
    if (error != cudaSuccess || params.parts.count == 1) {
      return error;
    }
    sm90::CombineParams combine{params.parts, sm90::combine_shares(params.parts.count), combining_epilogue()};
    LaunchShape const second = sm90::combining_shape(combining_blocks(params.parts), sm90::kCombineThreads, facts_.pdl);
    return tilewright::launch<AnyKernel>(context, facts_.combining_entry(), &combine, second, stream);
  }

 private:
  Facts const& facts_;
  Args const& args_;
  sm90::ClusterShape const cluster_;
  int const rows_, columns_;  // rows of the kernel's A and B

  // Whether the kernel is a plain form (plain_form.hpp): it alone stores no sums of a k range.
  bool is_plain_form() const { return facts_.sums == 0; }

  // Whether the kernel is a split form (split_form.hpp): it alone never stores a D of 16 bits by TMA.
  bool is_split_form() const { return !facts_.boxes && facts_.bytes_d == 2; }

  // The grid of a split form: a tile and a part for each CTA.
  dim3 split_grid() const {
    return dim3(blocks_down() * cluster_.size(), blocks_across(), sm90::parts_of(args_.tactic));
  }

  // The parts of k that the tactic asks for. Tiles are counted in whole clusters. With one part, only `count` and
  // `matrices` are used.
  sm90::Parts parts(void* workspace) const {
    int const count = sm90::parts_of(args_.tactic);
    if (count == 1) {
      return {1, args_.batch, {}, nullptr, 0, 0};
    }
    int const down = blocks_down(), across = blocks_across();
    return {count,
            args_.batch,
            sm90::Divisor(down * across * args_.batch),
            static_cast<float4*>(workspace),
            down * cluster_.m,
            across * cluster_.n};
  }

  // Thread blocks of the kernel that adds the parts up.
  int64_t combining_blocks(sm90::Parts const& parts) const {
    return int64_t(parts.tiles()) * (facts_.sums / sm90::kCombineThreads) * sm90::combine_shares(parts.count);
  }

  // The epilogue of the kernel that adds up parts. `n_boxes`: columns of D where D is the sum alone and its rows are
  // aligned as for TMA.
  sm90::EpilogueParams combining_epilogue() const { return epilogue_params(args_, sum_alone() ? args_.n : 0); }

  // Tiles of all matrices, with those outside of D that the last clusters have.
  int64_t tiles() const { return int64_t(args_.batch) * (blocks_down() * cluster_.m) * (blocks_across() * cluster_.n); }

  int k_tiles() const { return ceil_div(args_.k, facts_.tile_k); }
  int blocks_down() const { return ceil_div(rows_, facts_.tile_m * cluster_.m); }
  int blocks_across() const { return ceil_div(columns_, facts_.tile_n * cluster_.n); }

  // Whether strides of elements of `bytes` bytes are multiples of TMA's 16 bytes.
  bool fits(int64_t leading, int64_t batch_stride, int bytes) const {
    return (leading * bytes & 15) == 0 && (args_.batch == 1 || (batch_stride * bytes & 15) == 0);
  }

  // Columns of D that TMA can store, judged by strides: whole 16 bytes. With the bytes after them, TMA would overwrite
  // what follows the end of a row.
  int columns_in_boxes() const {
    return facts_.boxes && fits(args_.ld_d, args_.batch_stride_d, facts_.bytes_d) ? args_.n & -facts_.vector_d : 0;
  }

  // Whether TMA can load C into D's boxes, judged by strides.
  bool c_in_boxes() const {
    return facts_.c_by_tma && fits(args_.ld_c, args_.batch_stride_c, facts_.bytes_d) && of_d(args_.type_c);
  }

  bool of_d(int32_t addend) const { return addend == static_cast<int32_t>(facts_.addend_d); }

  // Whether registers can go to boxes directly.
  bool plain_epilogue(int n_boxes, bool c_by_tma) const {
    return n_boxes == args_.n && (args_.bias == nullptr || of_d(args_.type_bias)) && (args_.beta == 0.0f || c_by_tma);
  }

  // Whether a split form computes the product: the SMs hold a CTA for each tile and part. `count`: of parts in
  // the workspace, or 1. The form in clusters stores D itself.
  bool runs_split_form(int count) const {
    int const splits = args_.tactic.splits;
    bool const kind = facts_.epilogue_through_smem ? count == 1 && splits > 1 && sum_alone() : count > 1;
    return kind && args_.batch == 1 && tiles() * splits <= args_.tactic.sm_count;
  }

  // Whether D is A B and all of its rows are aligned for TMA.
  bool sum_alone() const {
    return unscaled() && args_.activation == 0 && args_.n % facts_.vector_d == 0 &&
           fits(args_.ld_d, args_.batch_stride_d, facts_.bytes_d);
  }

  // Whether D is A B, activated or not, and its address is aligned for TMA.
  bool unscaled() const {
    return args_.alpha == 1.0f && args_.scale_a == nullptr && args_.scale_b == nullptr && args_.beta == 0.0f &&
           args_.bias == nullptr && reinterpret_cast<uintptr_t>(args_.d) % 16 == 0;
  }

  static cudaError_t encode(CUtensorMap& map, sm90::Matrices const& matrices, Box const& box) {
    return sm90::encode_matrices(map, matrices, box.bytes, box.rows, box.swizzle);
  }

  // An operand of `rows` rows of k elements; MN-major, k rows of `rows` elements.
  sm90::Matrices operand(void const* address, int rows, bool mn_major, int64_t leading, int64_t batch_stride) const {
    int const inner = mn_major ? rows : args_.k, outer = mn_major ? args_.k : rows, bytes = facts_.bytes;
    return {address, int64_t(inner) * bytes, outer, args_.batch, leading * bytes, batch_stride * bytes, mn_major};
  }

  // The tactic's order of blocks; with the heuristic raster, the order that reads the least.
  sm90::Raster raster(int at_once, int down, int across) const {
    int const matrices = args_.batch * sm90::parts_of(args_.tactic);  // parts of k follow one another as matrices do
    int64_t const high = int64_t(facts_.tile_m) * cluster_.m, wide = int64_t(facts_.tile_n) * cluster_.n;
    if (args_.tactic.raster == TILEWRIGHT_RASTER_HEURISTIC) {
      return {down, across, matrices, sm90::Raster::best_swizzle(down, at_once, high, wide), true};
    }
    bool const along_rows = (args_.tactic.raster == TILEWRIGHT_RASTER_ALONG_M) != facts_.swapped;
    return {down, across, matrices, args_.tactic.swizzle, along_rows};
  }
};

// The `Host` (adapter.hpp) of a kernel with these facts.
struct Host {
  using Args = lean::Args;

  Facts const& facts;

  bool can_implement(Args const& args) const { return Maker(facts, args).can_implement(); }

  int64_t workspace_bytes(Args const& args) const { return Maker(facts, args).workspace_bytes(); }

  cudaError_t enqueue(Context const& context, Args const& args, void* workspace, cudaStream_t stream) const {
    Maker const maker(facts, args);
    return maker.enqueue<Params>(
        context, stream, [&](int at_once, Params& params) { return maker.make_params(at_once, workspace, params); });
  }
};

}  // namespace

int32_t can_implement(Facts const& facts, void const* args) { return Entries<Host>::can_implement({facts}, args); }

int64_t workspace_bytes(Facts const& facts, void const* args) { return Entries<Host>::workspace_bytes({facts}, args); }

int32_t launch(Facts const& facts, void const* args, void* workspace, void* stream) {
  return Entries<Host>::launch({facts}, args, workspace, stream);
}

}  // namespace tilewright::gemm::lean
