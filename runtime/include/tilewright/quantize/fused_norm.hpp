// RMSNorm, then quantising: x * rsqrt(mean(x^2) + epsilon) * weight in FP32. A thread block reads four whole rows
// twice: first for the sums of squares, then in reverse order to quantise. The stretch that it read last is still in
// registers.
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"
#include "tilewright/quantize/rows.hpp"

namespace tilewright::quantize {

template <class Format, class Type, int kThreads_, bool kPdl>
struct NormKernel {
  using Args = tilewright_quantize_args;
  using Params = quantize::Params;
  using Source = Plain<Type>;
  static constexpr int kThreads = kThreads_;
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kMinBlocks = Format::kByteScales ? 512 / kThreads : 1;  // otherwise 128 registers do not suffice
  static constexpr int kCount = Elements<Type>::kCount;
  static constexpr int kDataBytes = kCount * Format::kBits / 8;
  static constexpr int kStretch = kThreads * kCount;
  static constexpr int kSumsAt = Format::kSharedBytes;
  static constexpr int kSharedBytes = kSumsAt + kWarps * kRows * 4;

  static bool can_implement(Args const& args) {
    return takes(args, Elements<Type>::kBytes * 8, Format::kBits, kDataBytes, Format::kByteScales);
  }

  static cudaError_t make_params(Args const& args, Params& params, LaunchShape& shape) {
    set_params(args, params, Elements<Type>::kBytes * 8, Format::kBits, Format::kBlock, Format::kByteScales, 1,
               kStretch);
    if (args.weight == nullptr) {
      return cudaErrorInvalidValue;
    }
    params.stretches = params.column_tasks;
    params.column_tasks = 1;
    shape.grid = dim3(set_grid(args, params));
    return cudaSuccess;
  }

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    run_with_scales<Format>(*this, params, memory, memory);
  }

  template <class Scales>
  __device__ __forceinline__ void run(Params const& params, Scales scales, char* memory) const {
    namespace ptx = sm90;
    int const lane = threadIdx.x % 32;
    Task<1> task(params, blockIdx.x);
    if constexpr (kPdl) {
      ptx::wait_for_previous_kernel();
      ptx::allow_next_kernel();
    }
    bool prepared = false;
#pragma unroll 1
    do {
      Quad const quad(params, task.group, task.quad(params, 0));
      char const* const x = params.x + task.group * params.group_x;
      uint32_t words[kRows][Source::kWords];
      float sums[kRows] = {};
#pragma unroll 1
      for (int stretch = 0; stretch < params.stretches; ++stretch) {
        read(params, x, quad, stretch, words);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          auto const values = Source::values(words[i]);
#pragma unroll
          for (int part = 0; part < kCount / 8; ++part) {
            float v[8];
            values.floats(part, v);
#pragma unroll
            for (int j = 0; j < 8; ++j) {
              sums[i] = fmaf(v[j], v[j], sums[i]);
            }
          }
        }
      }
      if (!prepared) {
        scales.template prepare<kThreads>(params);
        prepared = true;
      }
      float rates[kRows];
      normalize(params, reinterpret_cast<float*>(memory + kSumsAt), sums, rates);
#pragma unroll 1
      for (int stretch = params.stretches - 1; stretch >= 0; --stretch) {
        if (stretch != params.stretches - 1) {
          read(params, x, quad, stretch, words);
        }
        int const column = column_of(stretch);
        Place<Type, Format::kBits> const place(params, task.group, quad, column);
        uint32_t weight[Source::kWords];
        Source::read(params, params.weight + int64_t(column) * Elements<Type>::kBytes, weight, column < params.k);
        auto const weights = Source::values(weight);
        uint32_t scale_bits[kRows];
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          scale_bits[i] = quantize_part<Format, Type>(params, scales, task.group, quad, i, column, place.row(i),
                                                      scaled(Source::values(words[i]), weights, rates[i]));
        }
        store_scales<Format, Type>(params, task.group, quad, column, lane, scale_bits);
      }
    } while (task.next(params));
  }

 private:
  static __device__ __forceinline__ int column_of(int stretch) { return stretch * kStretch + threadIdx.x * kCount; }

  static __device__ __forceinline__ void read(Params const& params, char const* x, Quad const& quad, int stretch,
                                              uint32_t (&words)[kRows][Source::kWords]) {
    int const column = column_of(stretch);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      Source::read(params, x + quad.row(i) * params.row_x + int64_t(column) * Elements<Type>::kBytes, words[i],
                   quad.counts(i) && column < params.k);
    }
  }

  // Adds up the thread block's sums of squares and computes the factors (`rates`) of its rows.
  static __device__ __forceinline__ void normalize(Params const& params, float* shared, float (&sums)[kRows],
                                                   float (&rates)[kRows]) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int lanes = 16; lanes > 0; lanes /= 2) {
        sums[i] += __shfl_xor_sync(~0u, sums[i], lanes);
      }
      if (threadIdx.x % 32 == 0) {
        shared[i * kWarps + threadIdx.x / 32] = sums[i];
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      float sum = 0.0f;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) {
        sum += shared[i * kWarps + warp];
      }
      rates[i] = rsqrtf(sum / static_cast<float>(params.k) + params.epsilon);
    }
    __syncthreads();  // the next rows' sums overwrite these
  }

  template <class Values>
  static __device__ __forceinline__ Floats<kCount> scaled(Values const& values, Values const& weights, float rate) {
    Floats<kCount> result;
#pragma unroll
    for (int part = 0; part < kCount / 8; ++part) {
      float x[8], w[8];
      values.floats(part, x);
      weights.floats(part, w);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        result.value[part * 8 + j] = multiply(multiply(x[j], rate), w[j]);
      }
    }
    return result;
  }
};

}  // namespace tilewright::quantize
