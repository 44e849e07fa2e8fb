// FP8 in blocks of 128x128: a thread block holds one in its registers.
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"
#include "tilewright/quantize/block.hpp"

namespace tilewright::quantize {

template <class Type, int kThreads_, bool kPdl>
struct SquareKernel {
  using Args = tilewright_quantize_args;
  using Params = quantize::Params;
  using Block = quantize::Block<Type, kThreads_>;
  static constexpr int kSide = Block::kSide, kParts = Block::kParts;
  static constexpr int kThreads = kThreads_;
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kMinBlocks = 512 / kThreads;
  static constexpr int kSharedBytes = kWarps * 4;

  static bool can_implement(Args const& args) { return Block::takes(args); }

  static cudaError_t make_params(Args const& args, Params& params, LaunchShape& shape) {
    Block::make_params(args, params, shape, kSide);
    return cudaSuccess;
  }

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    namespace ptx = sm90;
    Fp8::Scales const scales(params, memory);
    auto* const shared = reinterpret_cast<float*>(memory);
    typename Block::Task task(params, blockIdx.x);
    if constexpr (kPdl) {
      ptx::wait_for_previous_kernel();
      ptx::allow_next_kernel();
    }
#pragma unroll 1
    do {
      Block const block(params, task);
      float amax = 0.0f;
#pragma unroll
      for (int i = 0; i < kParts; ++i) {
        amax = larger(amax, block.values(i).amax());
      }
      amax = amax_of_lanes<32>(amax);
      if (threadIdx.x % 32 == 0) {
        shared[threadIdx.x / 32] = amax;
      }
      __syncthreads();
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) {
        amax = larger(amax, shared[warp]);
      }
      __syncthreads();  // the next block's go to the same place

      uint32_t scale = 0;
#pragma unroll
      for (int i = 0; i < kParts; ++i) {
        uint32_t data[Block::kWords];
        scale = scales.encode(block.values(i), amax, 1.0f, data);
        block.store(params, task.group, i, data);
      }
      store_scale(params, task.group, task.column_task, Block::tile(params, task), block.limit, scale);
    } while (task.next(params));
  }

 private:
  // One float, or a byte for each row.
  static __device__ __forceinline__ void store_scale(Params const& params, int group, int column, int tile, int limit,
                                                     uint32_t scale) {
    char* const base = params.scales + group * params.group_scales;
    if (!params.packed) {
      if (threadIdx.x == 0) {
        reinterpret_cast<uint32_t*>(base)[int64_t(tile) * params.columns + column] = tile * kSide < limit ? scale : 0;
      }
      return;
    }
    for (int i = threadIdx.x; i < kSide; i += kThreads) {
      int const row = tile * kSide + i;
      if (row < params.padded_rows) {
        bool const counts = row < limit && column < params.columns;
        base[(column / 4 * params.ld_scales + row) * 4 + column % 4] = static_cast<char>(counts ? scale : 0);
      }
    }
  }
};

}  // namespace tilewright::quantize
