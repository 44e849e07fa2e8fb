// Quantises a quad of rows whose elements are in a warp's registers, and loads these elements.
#pragma once

#include <cstdint>

#include "tilewright/quantize/elements.hpp"
#include "tilewright/quantize/formats.hpp"
#include "tilewright/quantize/geometry.hpp"

namespace tilewright::quantize {

// The source that is quantised is x itself.
template <class Type>
struct Plain {
  using Of = Elements<Type>;
  static constexpr int kWords = Of::kWords;
  static constexpr int kParts = 1;  // stretches of a row of x

  static __device__ __forceinline__ void read(Params const&, char const* address, uint32_t (&words)[kWords],
                                              bool valid) {
    load(address, words, valid);
  }
  static __device__ __forceinline__ auto values(uint32_t const (&words)[kWords]) { return Of::values(words); }
};

// silu(x[:, :k]) * x[:, k:] in FP32: gate / (1 + exp(-gate)) * up, each operation rounded.
template <class Type, bool kExact>
struct SiluMul {
  using Of = Elements<Type>;
  static constexpr int kWords = 2 * Of::kWords;
  static constexpr int kParts = 2;

  static __device__ __forceinline__ void read(Params const& params, char const* address, uint32_t (&words)[kWords],
                                              bool valid) {
    uint32_t half[Of::kWords];
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      load(address + part * int64_t(params.k) * Of::kBytes, half, valid);
#pragma unroll
      for (int i = 0; i < Of::kWords; ++i) {
        words[part * Of::kWords + i] = half[i];
      }
    }
  }

  static __device__ __forceinline__ Floats<Of::kCount> values(uint32_t const (&words)[kWords]) {
    uint32_t half[2][Of::kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      half[i / Of::kWords][i % Of::kWords] = words[i];
    }
    auto const gates = Of::values(half[0]);
    auto const ups = Of::values(half[1]);
    Floats<Of::kCount> result;
#pragma unroll
    for (int part = 0; part < Of::kCount / 8; ++part) {
      float gate[8], up[8];
      gates.floats(part, gate);
      ups.floats(part, up);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        result.value[part * 8 + i] = multiply(silu(gate[i]), up[i]);
      }
    }
    return result;
  }

  static __device__ __forceinline__ float silu(float x) {
    return kExact ? divide(x, add(1.0f, expf(-x))) : __fdividef(x, 1.0f + __expf(-x));
  }
};

// The number of the block that an element's column is in. Columns are not negative, which makes this a shift.
template <class Format>
__device__ __forceinline__ int block_of(int column) {
  return static_cast<int>(static_cast<uint32_t>(column) / Format::kBlock);
}

// Quantises `values`, the thread's part of row `i` of a quad, and stores the data. Returns the scale's bits, 0
// where there is none. The thread's elements begin at `column`, its data at `data`.
template <class Format, class Type, class Scales, class Values>
__device__ __forceinline__ uint32_t quantize_part(Params const& params, Scales const& scales, int group,
                                                  Quad const& quad, int i, int column, char* data, Values const& values,
                                                  bool halves_swapped = false) {
  constexpr int kCount = Elements<Type>::kCount;
  constexpr int kLanes = Format::kBlock > kCount ? Format::kBlock / kCount : 1;
  constexpr int kWords = kCount * Format::kBits / 32;
  int const row = quad.row(i);
  bool const counts = quad.counts(i);
  float thread_amax = values.amax();
  if (kLanes > 1 && column >= params.k) {
    thread_amax = 0.0f;  // the row ends within a block that other threads share
  }
  float const amax = amax_of_lanes<kLanes>(thread_amax);
  float const global = scales.global_scale_of(params, int64_t(group) * params.m + row, counts);
  uint32_t words[kWords];
  uint32_t const scale = scales.encode(values, amax, global, words);
  if (halves_swapped) {
    if constexpr (kWords == 1) {
      words[0] = __byte_perm(words[0], 0, 0x1032);
    } else {
#pragma unroll
      for (int j = 0; j < kWords / 2; ++j) {
        uint32_t const first = words[j];
        words[j] = words[j + kWords / 2];
        words[j + kWords / 2] = first;
      }
    }
  }
  if (counts && column < params.k) {
    store(data, words);
  }
  if constexpr (kLanes == 1) {
    return counts && column < params.k ? scale : 0;
  } else {
    return counts && block_of<Format>(column) < params.columns ? scale : 0;
  }
}

// Calls `kernel.run` with the scales that the launch asks for. Each has its own code path, so that no block branches.
template <class Format, class Kernel>
__device__ __forceinline__ void run_with_scales(Kernel const& kernel, Params const& params, char* memory, char* table) {
  if constexpr (Format::kGlobal) {
    if (params.scale_per_row) {
      kernel.run(params, typename Format::ScalesPerRow(params, table), memory);
      return;
    }
  }
  kernel.run(params, typename Format::Scales(params, table), memory);
}

// The addresses of a thread's elements in a quad's first row; the other rows' are `step` bytes further each.
template <class Type, int kBits>
struct Place {
  char* data;
  int64_t step;

  __device__ __forceinline__ Place(Params const& params, int group, Quad const& quad, int column)
      : data(params.data + group * params.group_data + quad.first * params.row_data + int64_t(column) * kBits / 8),
        step(quad.step * params.row_data) {}

  __device__ __forceinline__ char* row(int i) const { return data + i * step; }
  __device__ __forceinline__ void next_chunk() { data += 32 * Elements<Type>::kCount * kBits / 8; }
};

// Stores the scales that the four calls of `quantize_part` returned.
template <class Format, class Type>
__device__ __forceinline__ void store_scales(Params const& params, int group, Quad const& quad, int column, int lane,
                                             uint32_t const (&scale_bits)[kRows]) {
  constexpr int kCount = Elements<Type>::kCount;
  constexpr int kLanes = Format::kBlock > kCount ? Format::kBlock / kCount : 1;
  if constexpr (Format::kByteScales) {
    uint32_t const low = __byte_perm(scale_bits[0], scale_bits[1], 0x0040),
                   high = __byte_perm(scale_bits[2], scale_bits[3], 0x0040);
    store_bytes<kLanes>(params, group, quad, block_of<Format>(column), lane, __byte_perm(low, high, 0x5410));
  } else {
    store_floats<kLanes>(params, group, quad, block_of<Format>(column), lane, scale_bits);
  }
}

}  // namespace tilewright::quantize
