// The adapter of `mqa_logits` kernels to `tilewright_kernel`. A generated kernel includes it, and the header of its
// algorithm: `kernel.hpp`, `tensor_kernel.hpp` or `schedule.hpp`.
#pragma once

#include "tilewright/adapter.hpp"
#include "tilewright/alignment.hpp"
#include "tilewright/mqa_logits/args.h"
#include "tilewright/mqa_logits/loader.hpp"
#include "tilewright/mqa_logits/schedule.hpp"
#include "tilewright/sm90/matrices.hpp"

namespace tilewright::mqa_logits {

template <class Kernel>
struct LogitsHost {
  using Args = tilewright_mqa_logits_args;
  static constexpr bool kPaged = Kernel::Work::kPaged;
  static constexpr int kRowBytes = Kernel::kRowBytes, kPerByte = Kernel::kHeadDim / kRowBytes;
  static constexpr CUtensorMapSwizzle kSwizzle = Kernel::Product::kDecodedBytes > 0 ? CU_TENSOR_MAP_SWIZZLE_NONE
                                                 : kRowBytes == 128                 ? CU_TENSOR_MAP_SWIZZLE_128B
                                                 : kRowBytes == 64                  ? CU_TENSOR_MAP_SWIZZLE_64B
                                                                                    : CU_TENSOR_MAP_SWIZZLE_32B;

  static bool can_implement(Args const& args) {
    bool const heads = args.heads == Kernel::kHeads && args.head_dim == Kernel::kHeadDim;
    bool const extents = args.queries > 0 && args.keys > 0 && args.width > 0 && args.tactic.sm_count > 0;
    constexpr int kMultiple = 16 * kPerByte;
    bool const aligned = args.ld_q % kMultiple == 0 && args.batch_stride_q % kMultiple == 0 && args.ld_weights % 4 == 0;
    if constexpr (kPaged) {
      bool const pages = (args.page == 32 || args.page == 64) && args.cache_pages > 0 && args.table_pages > 0;
      bool const sequences = args.next_n > 0 && args.next_n <= 32 && args.queries % args.next_n == 0;
      return heads && extents && aligned && pages && sequences && args.ld_kv_cache % 16 == 0 && args.blocks > 0 &&
             is_aligned(args.schedule, 8);
    }
    return heads && extents && aligned && args.ld_kv % kMultiple == 0 && args.keys <= INT32_MAX / 4 - Kernel::kTile &&
           args.tactic.splits > 0 && int64_t(args.queries) * args.tactic.splits < INT32_MAX;
  }

  static cudaError_t make_params(Args const& args, typename Kernel::Params& params, LaunchShape& shape) {
    using Reduce = typename Kernel::Reduce;
    sm90::Matrices const weights{args.weights, Kernel::kHeads * 4, args.queries, 1, args.ld_weights * 4, 0};
    sm90::Matrices keys, scales;
    int rows;
    if constexpr (kPaged) {
      auto const* const cache = static_cast<char const*>(args.kv_cache);
      rows = args.page;
      keys = {cache, kRowBytes, args.page, args.cache_pages, kRowBytes, args.ld_kv_cache};
      scales = {cache + args.page * kRowBytes, args.page * 4, args.cache_pages, 1, args.ld_kv_cache, 0};
      params.work = {args.lengths,       args.indices,        reinterpret_cast<int2 const*>(args.schedule),
                     args.block_table,   args.ld_block_table, args.queries,
                     args.next_n,        args.table_pages,    args.page,
                     args.per_token != 0};
      shape.grid = dim3(args.blocks);
    } else {
      rows = Kernel::kTile;
      int64_t const scale_bytes = int64_t(args.keys) * 4;
      keys = {args.kv, kRowBytes, args.keys, 1, args.ld_kv / kPerByte, 0};
      scales = {args.kv_scale, scale_bytes, 1, 1, (scale_bytes + 15) / 16 * 16, 0};
      params.work = {args.starts, args.ends, args.queries, args.keys, args.tactic.splits, args.compressed != 0};
      int64_t const blocks = (int64_t(args.queries) + Kernel::kQueries - 1) / Kernel::kQueries;
      int64_t const items = blocks * args.tactic.splits;
      shape.grid = dim3(static_cast<unsigned>(items < args.tactic.sm_count ? items : args.tactic.sm_count));
    }
    shape.spread = true;
    params.logits = {args.out, args.ld_out, args.queries, args.width, args.clean != 0};
    // Heads of different queries alternate, in the order of `Reduction`.
    cudaError_t error = sm90::encode_boxes<4>(
        params.q, CU_TENSOR_MAP_DATA_TYPE_UINT8, args.q,
        {kRowBytes, Reduce::kTurn, cuuint64_t(args.queries), Kernel::kHeads / Reduce::kTurn},
        {cuuint64_t(args.ld_q / kPerByte), cuuint64_t(args.batch_stride_q / kPerByte),
         cuuint64_t(args.ld_q / kPerByte * Reduce::kTurn)},
        {kRowBytes, Reduce::kTurn, Reduce::kSetQueries, Kernel::kHeads / Reduce::kTurn}, kSwizzle);
    if (error == cudaSuccess) {
      error = sm90::encode_matrices(params.weights, weights, Kernel::kHeads * 4, Kernel::kQueries,
                                    CU_TENSOR_MAP_SWIZZLE_NONE);
    }
    if (error == cudaSuccess && Kernel::Product::kQueryScales) {
      sm90::Matrices const words{args.q_scale, Kernel::kHeads * 4, args.queries, 1, Kernel::kHeads * 4, 0};
      error = sm90::encode_matrices(params.query_scales, words, Kernel::kHeads * 4, Kernel::kQueries,
                                    CU_TENSOR_MAP_SWIZZLE_NONE);
    }
    if (error == cudaSuccess) {
      error = sm90::encode_matrices(params.keys, keys, kRowBytes, rows, kSwizzle);
    }
    if (error == cudaSuccess) {
      error = sm90::encode_matrices(params.scales, scales, rows * 4, 1, CU_TENSOR_MAP_SWIZZLE_NONE, 4);
    }
    return error;
  }
};

template <class Kernel>
struct ScheduleHost {
  using Args = tilewright_mqa_logits_args;

  static bool can_implement(Args const& args) {
    return args.queries > 0 && args.next_n > 0 && args.queries % args.next_n == 0 && args.blocks > 0;
  }

  static cudaError_t make_params(Args const& args, ScheduleParams& params, LaunchShape& shape) {
    int const sequences = args.queries / args.next_n;
    params = {args.lengths, args.indices, static_cast<int32_t*>(args.out), args.ld_out, sequences,
              args.next_n,  args.blocks};
    shape.grid = dim3(1);
    return cudaSuccess;
  }
};

template <class Traits>
using Host = LaunchedOnce<Traits, typename Traits::Host>;

}  // namespace tilewright::mqa_logits

#define TILEWRIGHT_MQA_LOGITS_KERNEL(NAME) \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Logits, tilewright::mqa_logits::Host, 1, 1024)
