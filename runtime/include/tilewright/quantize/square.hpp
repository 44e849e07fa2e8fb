// FP8 in blocks of 128x128: a thread block holds one in its registers.
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"
#include "tilewright/quantize/rows.hpp"

namespace tilewright::quantize {

template <class Type, int kThreads_, bool kPdl>
struct SquareKernel {
  using Args = tilewright_quantize_args;
  using Params = quantize::Params;
  using Source = Plain<Type>;
  static constexpr int kSide = 128;
  static constexpr int kThreads = kThreads_;
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kMinBlocks = 512 / kThreads;
  static constexpr int kSharedBytes = kWarps * 4;
  static constexpr int kCount = Elements<Type>::kCount;
  static constexpr int kWords = kCount / 4;        // of data
  static constexpr int kLanes = kSide / kCount;    // of a row
  static constexpr int kStep = kThreads / kLanes;  // rows that the thread block takes at a time
  static constexpr int kParts = kSide / kStep;     // of a thread

  static bool can_implement(Args const& args) {
    return takes(args, Elements<Type>::kBytes * 8, 8, kCount, false, kSide);
  }

  static cudaError_t make_params(Args const& args, Params& params, LaunchShape& shape) {
    set_params(args, params, Elements<Type>::kBytes * 8, 8, kSide, false, kSide / kRows, kSide, kSide);
    shape.grid = dim3(set_grid(args, params));
    return cudaSuccess;
  }

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    namespace ptx = sm90;
    Fp8::Scales const scales(params, memory);
    auto* const shared = reinterpret_cast<float*>(memory);
    Task<kSide / kRows> task(params, blockIdx.x);
    if constexpr (kPdl) {
      ptx::wait_for_previous_kernel();
      ptx::allow_next_kernel();
    }
#pragma unroll 1
    do {
      int const tile = task.row_task - task.group * params.row_tasks, first = tile * kSide;
      int const limit = Quad(params, task.group, 0).limit;
      int const column = task.column_task * kSide + threadIdx.x % kLanes * kCount;
      int const own = first + threadIdx.x / kLanes;
      char const* const x = params.x + task.group * params.group_x + int64_t(column) * Elements<Type>::kBytes;
      uint32_t words[kParts][Source::kWords];
#pragma unroll
      for (int i = 0; i < kParts; ++i) {
        int const row = own + i * kStep;
        Source::read(params, x + row * params.row_x, words[i], row < limit && column < params.k);
      }
      float amax = 0.0f;
#pragma unroll
      for (int i = 0; i < kParts; ++i) {
        amax = larger(amax, Source::values(words[i]).amax());
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
        int const row = own + i * kStep;
        uint32_t data[kWords];
        scale = scales.encode(Source::values(words[i]), amax, 1.0f, data);
        if (row < limit && column < params.k) {
          store(params.data + task.group * params.group_data + row * params.row_data + column, data);
        }
      }
      store_scale(params, task.group, task.column_task, tile, limit, scale);
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
