// The host's code of lean `gemm` kernels (lean_params.hpp): included once, by a module's table.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "tilewright/adapter.hpp"
#include "tilewright/gemm/epilogue_params.hpp"
#include "tilewright/gemm/lean_params.hpp"
#include "tilewright/sm90/clustered.hpp"
#include "tilewright/sm90/operands.hpp"

namespace tilewright::gemm::lean {

// Stands for all kernels that this code launches.
struct AnyKernel {};

}  // namespace tilewright::gemm::lean

namespace tilewright {

// The primary template keeps a list of contexts for each kernel, told by its type. These have one type together: a list
// is found by the address of its kernel.
template <>
inline cudaError_t allow<gemm::lean::AnyKernel>(Context const& context, void const* entry, LaunchShape const& shape,
                                                CUfunction& function) {
  struct Known : KernelInContext {
    void const* entry;
  };
  static std::array<std::atomic<Known const*>, 1024> lists{};
  std::atomic<Known const*>& list = lists[reinterpret_cast<uintptr_t>(entry) / 16 % lists.size()];
  auto const next = [](Known const* known) { return static_cast<Known const*>(known->next); };
  for (Known const* known = list.load(std::memory_order_acquire); known != nullptr; known = next(known)) {
    if (known->entry == entry && known->context == context.current) {
      function = known->function;
      return cudaSuccess;
    }
  }
  cudaError_t const error = allow_now(context, entry, shape, function);
  if (error == cudaSuccess) {
    auto* const known = new Known{{context.current, function, nullptr}, entry};
    Known const* first = list.load(std::memory_order_relaxed);
    do {
      known->next = first;
    } while (!list.compare_exchange_weak(first, known, std::memory_order_release, std::memory_order_relaxed));
  }
  return error;
}

}  // namespace tilewright

namespace tilewright::gemm::lean {

using Args = tilewright_gemm_args;
using sm90::ceil_div;

namespace {  // so that what is called once is inlined

// How a kernel is launched. The parts of a split k meet in the shared memory of a cluster, or in a workspace.
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
           known_epilogue(args_, facts_.activation) && (facts_.exchanges || plain || count > 1) &&
           aligned(args_.ld_a, args_.batch_stride_a) && aligned(args_.ld_b, args_.batch_stride_b) &&
           tiles() * count < INT32_MAX && (count == 1 || combining_blocks(parts(nullptr)) < INT32_MAX);
  }

  int64_t workspace_bytes() const {
    int const count = sm90::parts_of(args_.tactic);
    return count > 1 ? int64_t(count) * parts(nullptr).tiles() * facts_.sums * int64_t(sizeof(float4)) : 0;
  }

  // As many of k as the tactic says. Tiles are those of whole clusters. Of one part nothing else is looked at.
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

  // Of the kernel that adds them up.
  int64_t combining_blocks(sm90::Parts const& parts) const {
    return int64_t(parts.tiles()) * (facts_.sums / sm90::kCombineThreads) * sm90::combine_shares(parts.count);
  }

  sm90::ClusterShape const& cluster() const { return cluster_; }

  // `at_once`: clusters that run at once.
  cudaError_t make_params(int at_once, void* workspace, Params& params) const {
    // As the kernel sees them: rows of A and of B.
    sm90::Matrices const a = facts_.swapped ? operand(args_.b, rows_, facts_.mn_a, args_.ld_b, args_.batch_stride_b)
                                            : operand(args_.a, rows_, facts_.mn_a, args_.ld_a, args_.batch_stride_a);
    sm90::Matrices const b = facts_.swapped ? operand(args_.a, columns_, facts_.mn_b, args_.ld_a, args_.batch_stride_a)
                                            : operand(args_.b, columns_, facts_.mn_b, args_.ld_b, args_.batch_stride_b);

    // Of an MN-major operand, slices of the 64 of k that a box has.
    params.divide(cluster_, facts_.mn_a ? 64 : facts_.tile_m, facts_.mn_b ? 64 : facts_.tile_n, k_tiles());
    if (!facts_.mn_a) {
      params.slices_a = sm90::Slices::of(facts_.tile_m, cluster_.n, rows_);
    }
    if (!facts_.mn_b) {
      params.slices_b = sm90::Slices::of(facts_.tile_n, cluster_.m, columns_);
    }
    params.parts = parts(workspace);
    if (params.parts.count > 1) {  // not those of the cluster
      params.k_each = k_tiles() / params.parts.count;
      params.k_more = k_tiles() % params.parts.count;
    }
    params.stage_bytes = facts_.tile_k * facts_.bytes *
                         ((facts_.mn_a ? facts_.tile_m : params.slices_a.loaded()) +
                          (facts_.mn_b ? facts_.tile_n : params.slices_b.loaded()));
    int const down = blocks_down(), across = blocks_across();
    params.raster = raster(at_once, down, across);
    // One column (row) of tiles reads it once.
    bool const a_again = across > 1 || (a.one() && args_.batch > 1);
    bool const b_again = down > 1 || (b.one() && args_.batch > 1);
    if (cudaError_t const error = sm90::encode_operands(params, a, b, a_again, b_again); error != cudaSuccess) {
      return error;
    }
    int const bytes = facts_.bytes_d;
    int const n_boxes = reinterpret_cast<uintptr_t>(args_.d) % 16 == 0 ? columns_in_boxes() : 0;
    sm90::Matrices const c{const_cast<void*>(args_.c), int64_t(args_.n) * bytes,    args_.m, args_.batch,
                           args_.ld_c * bytes,         args_.batch_stride_c * bytes};
    bool const boxes_c = c_in_boxes() && c.aligned();
    params.exchanges = args_.tactic.splits > 1 || !plain_epilogue(n_boxes, boxes_c);
    params.boxes_c = !params.exchanges && args_.beta != 0.0f;
    params.one_c = c.one();
    if (params.exchanges && !facts_.exchanges && params.parts.count == 1) {
      return cudaErrorInvalidValue;
    }
    params.epilogue = epilogue_params(args_, n_boxes);
    if (params.parts.count > 1) {
      params.epilogue.c = nullptr;  // the second kernel's
    }
    if (params.boxes_c) {
      if (cudaError_t const error = encode(params.c, c, facts_.box); error != cudaSuccess) {
        return error;
      }
    }
    if (n_boxes == 0) {
      return cudaSuccess;
    }
    sm90::Matrices const d{args_.d,     int64_t(n_boxes) * bytes, args_.m,
                           args_.batch, args_.ld_d * bytes,       args_.batch_stride_d * bytes};
    return encode(params.d, d, params.exchanges ? facts_.shared_box : facts_.box);
  }

 private:
  Facts const& facts_;
  Args const& args_;
  sm90::ClusterShape const cluster_;
  int const rows_, columns_;  // rows of the kernel's A and B

  // Of all matrices, with those beyond D that the last clusters have.
  int64_t tiles() const { return int64_t(args_.batch) * (blocks_down() * cluster_.m) * (blocks_across() * cluster_.n); }

  int k_tiles() const { return ceil_div(args_.k, facts_.tile_k); }
  int blocks_down() const { return ceil_div(rows_, facts_.tile_m * cluster_.m); }
  int blocks_across() const { return ceil_div(columns_, facts_.tile_n * cluster_.n); }

  // Whether TMA takes such strides, of elements of so many bytes.
  bool fits(int64_t leading, int64_t batch_stride, int bytes) const {
    return (leading * bytes & 15) == 0 && (args_.batch == 1 || (batch_stride * bytes & 15) == 0);
  }

  // Columns of D that TMA can store, as far as strides say. It stores whole 16 bytes: what lies behind the end of a
  // row within them would be overwritten.
  int columns_in_boxes() const {
    return facts_.boxes && fits(args_.ld_d, args_.batch_stride_d, facts_.bytes_d) ? args_.n & -facts_.vector_d : 0;
  }

  // Whether C can come in boxes as D goes in boxes, as far as strides say.
  bool c_in_boxes() const {
    return facts_.boxes_c && fits(args_.ld_c, args_.batch_stride_c, facts_.bytes_d) && of_d(args_.type_c);
  }

  bool of_d(int32_t addend) const { return addend == static_cast<int32_t>(facts_.addend_d); }

  // Whether registers can go to boxes at once.
  bool plain_epilogue(int n_boxes, bool boxes_c) const {
    return n_boxes == args_.n && (args_.bias == nullptr || of_d(args_.type_bias)) && (args_.beta == 0.0f || boxes_c);
  }

  static cudaError_t encode(CUtensorMap& map, sm90::Matrices const& matrices, Box const& box) {
    return sm90::encode_matrices(map, matrices, box.bytes, box.rows, box.swizzle);
  }

  // `rows` of k elements; MN-major: the other way round.
  sm90::Matrices operand(void const* address, int rows, bool mn_major, int64_t leading, int64_t batch_stride) const {
    int const inner = mn_major ? rows : args_.k, outer = mn_major ? args_.k : rows, bytes = facts_.bytes;
    return {address, int64_t(inner) * bytes, outer, args_.batch, leading * bytes, batch_stride * bytes, mn_major};
  }

  // The tactic's order: `swizzle` tiles of the direction that the raster goes along; else what reads the least.
  sm90::Raster raster(int at_once, int down, int across) const {
    int const matrices = args_.batch * sm90::parts_of(args_.tactic);  // parts of k follow one another as they do
    int64_t const high = int64_t(facts_.tile_m) * cluster_.m, wide = int64_t(facts_.tile_n) * cluster_.n;
    if (args_.tactic.raster == TILEWRIGHT_RASTER_HEURISTIC) {
      return {down, across, matrices, sm90::Raster::best_group(down, at_once, high, wide), true};
    }
    bool const along_rows = (args_.tactic.raster == TILEWRIGHT_RASTER_ALONG_M) != facts_.swapped;
    return {down, across, matrices, args_.tactic.swizzle, along_rows};
  }
};

// Of the kernel of these facts.
struct Host {
  using Args = lean::Args;

  Facts const& facts;

  bool can_implement(Args const& args) const { return Maker(facts, args).can_implement(); }

  int64_t workspace_bytes(Args const& args) const { return Maker(facts, args).workspace_bytes(); }

  // One kernel, and where parts of k meet in memory, a second one.
  cudaError_t enqueue(Context const& context, Args const& args, void* workspace, cudaStream_t stream) const {
    Maker const maker(facts, args);
    LaunchShape shape{};
    shape.block = dim3(facts.threads);
    shape.smem_bytes = facts.shared_bytes;
    shape.pdl = facts.pdl;
    void const* const entry = facts.entry();
    int at_once = 0;
    cudaError_t error = sm90::prepare<AnyKernel>(context, entry, args.tactic, maker.cluster(), shape, at_once);
    if (error != cudaSuccess) {
      return error;
    }
    Params params;
    error = maker.make_params(at_once, workspace, params);
    if (error != cudaSuccess) {
      return error;
    }
    int const blocks = params.raster.blocks;
    shape.grid = dim3((blocks < at_once ? blocks : at_once) * maker.cluster().size());
    error = tilewright::launch<AnyKernel>(context, entry, &params, shape, stream);
    if (error != cudaSuccess || params.parts.count == 1) {
      return error;
    }
    sm90::CombineParams combine{params.parts, sm90::combine_shares(params.parts.count), epilogue_params(args, 0)};
    LaunchShape const second =
        sm90::combining_shape(maker.combining_blocks(params.parts), sm90::kCombineThreads, facts.pdl);
    return tilewright::launch<AnyKernel>(context, facts.combining_entry(), &combine, second, stream);
  }
};

}  // namespace

int32_t can_implement(Facts const& facts, void const* args) { return Entries<Host>::can_implement({facts}, args); }

int64_t workspace_bytes(Facts const& facts, void const* args) { return Entries<Host>::workspace_bytes({facts}, args); }

int32_t launch(Facts const& facts, void const* args, void* workspace, void* stream) {
  return Entries<Host>::launch({facts}, args, workspace, stream);
}

}  // namespace tilewright::gemm::lean
