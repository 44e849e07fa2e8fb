// The vectorised kernel: each thread loads its elements of four rows, 16 bytes at a time and all at once, and
// quantises them from registers.
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"
#include "tilewright/quantize/rows.hpp"

namespace tilewright::quantize {

// `Source` computes the values to quantise: Plain or SiluMul.
template <class Format, class Type, class Source, int kThreads_, bool kPdl>
struct VectorKernel {
  using Args = tilewright_quantize_args;
  using Params = quantize::Params;
  static constexpr int kThreads = kThreads_;
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kMinBlocks = (Source::kParts == 1 ? 768 : 512) / kThreads;  // 80 registers a thread, or 128
  static constexpr int kSharedBytes = Format::kSharedBytes;
  static constexpr int kCount = Elements<Type>::kCount;
  static constexpr int kDataBytes = kCount * Format::kBits / 8;

  static bool can_implement(Args const& args) {
    return takes(args, Elements<Type>::kBytes * 8, Format::kBits, kDataBytes, Format::kByteScales, 1, Source::kParts);
  }

  static cudaError_t make_params(Args const& args, Params& params, LaunchShape& shape) {
    set_params(args, params, Elements<Type>::kBytes * 8, Format::kBits, Format::kBlock, Format::kByteScales, kWarps,
               32 * kCount);
    lengthen_tasks(args, params);
    shape.grid = dim3(set_grid(args, params));
    return cudaSuccess;
  }

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    run_with_scales<Format>(*this, params, memory, memory);
  }

  template <class Scales>
  __device__ __forceinline__ void run(Params const& params, Scales scales, char*) const {
    namespace ptx = sm90;
    int const warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Task<kWarps> task(params, blockIdx.x);
    if constexpr (kPdl) {
      ptx::wait_for_previous_kernel();
      ptx::allow_next_kernel();
    }
    if constexpr (Format::kGlobal) {
      // Elements that wait in registers for the scales' table would spill: they wait in L2.
      Quad const quad(params, task.group, task.quad(params, warp));
      int const column = first_column(params, task, lane);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if (quad.counts(i) && column < params.k) {
          prefetch(params.x + task.group * params.group_x + quad.row(i) * params.row_x +
                   int64_t(column) * Elements<Type>::kBytes);
        }
      }
    }
    scales.template prepare<kThreads>(params);
#pragma unroll 1
    do {
      Quad const quad(params, task.group, task.quad(params, warp));
      int column = first_column(params, task, lane);
      char const* x =
          params.x + task.group * params.group_x + quad.first * params.row_x + int64_t(column) * Elements<Type>::kBytes;
      int64_t const step = quad.step * params.row_x;
      Place<Type, Format::kBits> place(params, task.group, quad, column);
#pragma unroll 1
      for (int chunk = 0; chunk < params.chunks; ++chunk) {
        uint32_t words[kRows][Source::kWords];
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          Source::read(params, x + i * step, words[i], quad.counts(i) && column < params.k);
        }
        if (quad.exists) {
          uint32_t scale_bits[kRows];
#pragma unroll
          for (int i = 0; i < kRows; ++i) {
            scale_bits[i] = quantize_part<Format, Type>(params, scales, task.group, quad, i, column, place.row(i),
                                                        Source::values(words[i]));
          }
          store_scales<Format, Type>(params, task.group, quad, column, lane, scale_bits);
        }
        column += 32 * kCount;
        x += 32 * kCount * Elements<Type>::kBytes;
        place.next_chunk();
      }
    } while (task.next(params));
  }

 private:
  static __device__ __forceinline__ int first_column(Params const& params, Task<kWarps> const& task, int lane) {
    return (task.column_task * params.chunks * 32 + lane) * kCount;
  }
};

}  // namespace tilewright::quantize
