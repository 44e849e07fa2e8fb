// Dequantising: element * scale / global scale in FP32, then rounded to x's type.
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"
#include "tilewright/quantize/geometry.hpp"
#include "tilewright/quantize/numbers.hpp"

namespace tilewright::quantize {

__device__ __forceinline__ uint32_t round_pair(Bf16, float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ uint32_t round_pair(F16, float low, float high) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// A stored format. kMantissa: bits of the elements' mantissa. kSide: rows that share a scale, which is 128 for FP8 in
// blocks of 128x128 and 128x1, otherwise 1.
template <int kBits_, int kMantissa, int kBlock_, bool kByteScales_, int kSide_ = 1>
struct Stored {
  static constexpr int kBits = kBits_, kBlock = kBlock_, kSide = kSide_;
  static constexpr bool kByteScales = kByteScales_;
  static constexpr bool kGlobal = kBlock == 16;

  static __device__ __forceinline__ float element(uint32_t code) {
    return kBits == 4 ? decode_e2m1(code) : kMantissa == 3 ? decode_e4m3(code) : decode_e5m2(code);
  }

  static __device__ __forceinline__ float scale(Params const& params, int group, int row, int column) {
    char const* const base = params.scales + group * params.group_scales;
    if constexpr (kByteScales) {
      int const quad = params.interleaved ? row / 128 * 32 + row % 32 : row / kRows;
      int const place = params.interleaved ? row % 128 / 32 : row % kRows;
      int const in_tile = quad & ((1 << params.quad_bits) - 1);
      uint32_t const byte =
          static_cast<uint8_t>(base[(quad >> params.quad_bits) * params.tile_scales + in_tile * params.quad_scales +
                                    place * params.row_scales + column / 4 * params.word_scales + column % 4]);
      return kBlock == 16 ? decode_e4m3(byte) : decode_ue8m0(byte);
    } else if (params.packed) {
      return decode_ue8m0(static_cast<uint8_t>(base[(column / 4 * params.ld_scales + row) * 4 + column % 4]));
    } else {
      auto const* const floats = reinterpret_cast<float const*>(base);
      return params.m_major ? floats[column * params.ld_scales + row]
                            : floats[int64_t(row / kSide) * params.columns + column];
    }
  }
};

using StoredNvfp4 = Stored<4, 1, 16, true>;
using StoredMxfp4 = Stored<4, 1, 32, true>;
using StoredMxfp8 = Stored<8, 3, 32, true>;
using StoredMxfp8E5m2 = Stored<8, 2, 32, true>;
using StoredFp8 = Stored<8, 3, 128, false>;
using StoredFp8Column = Stored<8, 3, 1, false, 128>;
using StoredFp8Square = Stored<8, 3, 128, false, 128>;

template <class Format, class Type, int kThreads_, bool kPdl>
struct DequantizeKernel {
  using Args = tilewright_quantize_args;
  using Params = quantize::Params;
  static constexpr int kThreads = kThreads_;
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kMinBlocks = 1024 / kThreads;
  static constexpr int kSharedBytes = 0;
  static constexpr int kCount = 8;  // elements of a thread
  static constexpr int kWords = kCount * Format::kBits / 32;
  static constexpr int kOut = kCount * Elements<Type>::kBytes / 4;

  static bool can_implement(Args const& args) {
    return takes(args, Elements<Type>::kBytes * 8, Format::kBits, kWords * 4, Format::kByteScales, Format::kSide);
  }

  static cudaError_t make_params(Args const& args, Params& params, LaunchShape& shape) {
    set_params(args, params, Elements<Type>::kBytes * 8, Format::kBits, Format::kBlock, Format::kByteScales, kWarps,
               32 * kCount, Format::kSide);
    params.column_tasks = static_cast<int>(ceil_div(args.k, 32 * kCount));
    shape.grid = dim3(set_grid(args, params));
    return cudaSuccess;
  }

  __device__ __forceinline__ void operator()(Params const& params, char*) const {
    namespace ptx = sm90;
    int const warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Task<kWarps> task(params, blockIdx.x);
    if constexpr (kPdl) {
      ptx::wait_for_previous_kernel();
      ptx::allow_next_kernel();
    }
#pragma unroll 1
    do {
      Quad const quad(params, task.group, task.quad(params, warp));
      int const column = (task.column_task * 32 + lane) * kCount;
      char const* const data = params.data + task.group * params.group_data + int64_t(column) * Format::kBits / 8;
      uint32_t words[kRows][kWords];
      float scales[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        bool const counts = quad.counts(i) && column < params.k;
        load(data + quad.row(i) * params.row_data, words[i], counts);
        scales[i] = counts ? Format::scale(params, task.group, quad.row(i), column / Format::kBlock) : 0.0f;
      }
#pragma unroll 1
      for (int i = 0; i < kRows; ++i) {
        if (quad.counts(i) && column < params.k) {
          write(params, task.group, quad.row(i), column, words[0], scales[0]);
        }
#pragma unroll
        for (int next = 1; next < kRows; ++next) {  // a loop that is not unrolled indexes no registers
          scales[next - 1] = scales[next];
#pragma unroll
          for (int j = 0; j < kWords; ++j) {
            words[next - 1][j] = words[next][j];
          }
        }
      }
    } while (task.next(params));
  }

 private:
  static __device__ __forceinline__ void write(Params const& params, int group, int row, int column,
                                               uint32_t const (&words)[kWords], float scale) {
    float global = 1.0f;
    if (Format::kGlobal && params.global_scale != nullptr) {
      global = params.global_scale[params.scale_per_row ? int64_t(group) * params.m + row : 0];
    }
    float values[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      constexpr int kPerWord = 32 / Format::kBits;
      uint32_t const code = words[i / kPerWord] >> (i % kPerWord * Format::kBits) & ((1 << Format::kBits) - 1);
      float const own = Format::kBlock > 1 ? scale : Format::scale(params, group, row, column + i);
      values[i] = multiply(Format::element(code), own);  // exact, except with scales that are floats
      if (Format::kGlobal && params.global_scale != nullptr) {
        values[i] = divide(values[i], global);
      }
    }
    uint32_t out[kOut];
#pragma unroll
    for (int i = 0; i < kOut; ++i) {
      if constexpr (Elements<Type>::kBytes == 4) {
        out[i] = bits_of(values[i]);
      } else {
        out[i] = round_pair(Type{}, values[2 * i], values[2 * i + 1]);
      }
    }
    store(params.x + group * params.group_x + row * params.row_x + int64_t(column) * Elements<Type>::kBytes, out);
  }
};

}  // namespace tilewright::quantize
