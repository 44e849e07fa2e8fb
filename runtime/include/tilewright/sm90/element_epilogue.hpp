// The arithmetic of an epilogue for each element of D:
//
//   D = scale_result * activation(alpha * scale_a * scale_b * sum + bias + beta * C)
//
// Only a D of FP8 has scale_result, and amax, the largest magnitude before scale_result.
#pragma once

#include <cstdint>

#include "tilewright/sm90/elements.hpp"
#include "tilewright/sm90/epilogue_params.hpp"

namespace tilewright::sm90 {

// Applies the activation to values. Each activation has a loop of its own, so that no value needs a branch.
template <Activation kActivation, int Count>
__device__ __forceinline__ void activate(float (&values)[Count], Activation activation) {
  static_assert(kActivation == Activation::kNone || kActivation == Activation::kGiven);
  auto const apply = [&values](auto const& function) {
#pragma unroll
    for (float& value : values) {
      value = function(value);
    }
  };
  if constexpr (kActivation == Activation::kGiven) {
    if (activation == Activation::kRelu) {
      apply([](float x) { return x > 0.0f || x != x ? x : 0.0f; });  // NaN stays
    } else if (activation == Activation::kGelu) {
      apply([](float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); });
    } else if (activation == Activation::kSilu) {
      apply([](float x) { return x / (1.0f + __expf(-x)); });
    }
  }
}

// Raises `*amax` to the largest magnitude of a warp's threads. Magnitudes are compared as the bits of floats, so that a
// NaN is larger than every number. Called by all threads of a warp.
__device__ __forceinline__ void raise(float* amax, uint32_t magnitude) {
  uint32_t const largest = __reduce_max_sync(~0u, magnitude);
  if (threadIdx.x % 32 == 0) {
    atomicMax(reinterpret_cast<uint32_t*>(amax), largest);
  }
}

// alpha * scale_a * scale_b: the factor of the sums.
__device__ __forceinline__ float factor_of(EpilogueParams const& params) {
  float const a = params.scale_a != nullptr ? *params.scale_a : 1.0f;
  float const b = params.scale_b != nullptr ? *params.scale_b : 1.0f;
  return params.alpha * a * b;
}

// Stores one element of D for each thread. Called by all threads of a warp.
template <class ElementD, Activation kActivation>
__device__ __forceinline__ void store_element(EpilogueParams const& params, float sum, int row, int column,
                                              int matrix) {
  bool const exists = row < params.m && column < params.n;
  float value = sum * factor_of(params);
  if (exists && params.bias != nullptr) {
    value += load(params.type_bias, params.bias, column);
  }
  if (exists && params.c != nullptr) {
    value += params.beta * load(params.type_c, params.c, matrix * params.batch_stride_c + row * params.ld_c + column);
  }
  float values[1] = {value};
  activate<kActivation>(values, params.activation);
  value = values[0];
  if constexpr (ElementD::kBytes == 1) {
    if (params.amax != nullptr) {
      raise(params.amax, exists ? __float_as_uint(value) & 0x7FFFFFFFu : 0);
    }
    value *= params.scale_result != nullptr ? *params.scale_result : 1.0f;
  }
  if (exists) {
    ElementD::store(params.d, matrix * params.batch_stride_d + row * params.ld_d + column, value);
  }
}

}  // namespace tilewright::sm90
