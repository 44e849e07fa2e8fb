// FP8 in blocks of 128x1: 128 rows of a column share a scale. A thread block holds the blocks of 128 columns in its
// registers.
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"
#include "tilewright/quantize/block.hpp"

namespace tilewright::quantize {

template <class Type, int kThreads_, bool kPdl>
struct ColumnKernel {
  using Args = tilewright_quantize_args;
  using Params = quantize::Params;
  using Block = quantize::Block<Type, kThreads_>;
  using Source = typename Block::Source;
  static constexpr int kSide = Block::kSide, kCount = Block::kCount, kLanes = Block::kLanes, kParts = Block::kParts;
  static constexpr int kThreads = kThreads_;
  static constexpr int kMinBlocks = (Elements<Type>::kBytes == 4 ? 512 : 768) / kThreads;
  static constexpr int kSharedBytes = 2 * kSide * 4;  // the amax and the factor of each column
  static_assert(kThreads >= kSide && 32 % kLanes == 0);

  static bool can_implement(Args const& args) {
    return args.layout == TILEWRIGHT_SCALES_ROW_MAJOR && Block::takes(args);
  }

  static cudaError_t make_params(Args const& args, Params& params, LaunchShape& shape) {
    Block::make_params(args, params, shape, 1);
    return cudaSuccess;
  }

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    namespace ptx = sm90;
    // Bits of the columns' amax: of floats that are not negative they are in order, NaN above all.
    auto* const amax = reinterpret_cast<uint32_t*>(memory);
    auto* const factors = reinterpret_cast<float*>(memory + kSide * 4);
    typename Block::Task task(params, blockIdx.x);
    if constexpr (kPdl) {
      ptx::wait_for_previous_kernel();
      ptx::allow_next_kernel();
    }
    int const lane = threadIdx.x % kLanes;
#pragma unroll 1
    do {
      Block const block(params, task);
      int const tile = Block::tile(params, task);
      if (threadIdx.x < kSide) {
        amax[threadIdx.x] = 0;
      }
      __syncthreads();
      raise(amax, block.words, lane);
      __syncthreads();
      if (threadIdx.x < kSide) {
        float const scale = fp8_scale(float_of(amax[threadIdx.x]));
        factors[threadIdx.x] = divide(1.0f, scale);
        int const of = task.column_task * kSide + column_at(threadIdx.x);
        if (of < params.k) {
          auto* const scales = reinterpret_cast<float*>(params.scales + task.group * params.group_scales);
          scales[int64_t(tile) * params.columns + of] = tile * kSide < block.limit ? scale : 0.0f;
        }
      }
      __syncthreads();
      float factor[kCount];
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        factor[j] = factors[place_of(lane, j)];
      }
#pragma unroll
      for (int i = 0; i < kParts; ++i) {
        uint32_t data[Block::kWords];
        encode(block.values(i), factor, data);
        block.store(params, task.group, i, data);
      }
    } while (task.next(params));
  }

 private:
  // Index in shared memory of element `j` of a lane's columns. Four of a lane's elements lie side by side.
  static __device__ __forceinline__ int place_of(int lane, int j) { return (j / 4 * kLanes + lane) * 4 + j % 4; }
  static __device__ __forceinline__ int column_at(int place) {
    return place / 4 % kLanes * kCount + place / (kLanes * 4) * 4 + place % 4;
  }

  // The larger magnitudes of two words. The signs of the result mean nothing.
  static __device__ __forceinline__ uint32_t larger_word(uint32_t x, uint32_t y) {
    if constexpr (Elements<Type>::kBytes == 4) {
      return bits_of(larger(float_of(x), float_of(y)));
    } else {
      return detail::larger_pair(Type{}, x, y);
    }
  }

  // Raises the columns' amax by a thread's elements.
  static __device__ __forceinline__ void raise(uint32_t* amax, uint32_t const (&words)[kParts][Source::kWords],
                                               int lane) {
    uint32_t most[Source::kWords];
#pragma unroll
    for (int w = 0; w < Source::kWords; ++w) {
      most[w] = words[0][w];
#pragma unroll
      for (int i = 1; i < kParts; ++i) {
        most[w] = larger_word(most[w], words[i][w]);
      }
#pragma unroll
      for (int lanes = kLanes; lanes < 32; lanes *= 2) {  // the warp's other rows
        most[w] = larger_word(most[w], __shfl_xor_sync(~0u, most[w], lanes));
      }
    }
    if (threadIdx.x % 32 < kLanes) {
      auto const values = Source::values(most);
#pragma unroll
      for (int part = 0; part < kCount / 8; ++part) {
        float x[8];
        values.floats(part, x);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          atomicMax(amax + place_of(lane, part * 8 + j), bits_of(fabsf(x[j])));
        }
      }
    }
  }

  template <class Values>
  static __device__ __forceinline__ void encode(Values const& values, float const (&factor)[kCount],
                                                uint32_t (&data)[Block::kWords]) {
#pragma unroll
    for (int part = 0; part < kCount / 8; ++part) {
      float x[8];
      values.floats(part, x);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        x[i] = multiply(x[i], factor[part * 8 + i]);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        data[part * 2 + i] = encode_fp8_word<3>(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]);
      }
    }
  }
};

}  // namespace tilewright::quantize
