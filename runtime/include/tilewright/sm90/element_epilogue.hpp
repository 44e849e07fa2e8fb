// What an epilogue does to each element of D:
//
//   D = scale_result * activation(alpha * scale_a * scale_b * sum + bias + beta * C)
//
// where scale_result, and the largest magnitude before it (amax), are FP8's alone.
#pragma once

#include <cstdint>

#include "tilewright/sm90/elements.hpp"
#include "tilewright/sm90/epilogue_params.hpp"

namespace tilewright::sm90 {

// Activates values by the one that all threads are given: a loop for each, not a choice for each value.
template <Activation kActivation, int Count>
__device__ __forceinline__ void activate(float (&values)[Count], Activation given) {
  static_assert(kActivation == Activation::kNone || kActivation == Activation::kGiven);
  auto const each = [&values](auto const& one) {
#pragma unroll
    for (float& value : values) {
      value = one(value);
    }
  };
  if constexpr (kActivation == Activation::kGiven) {
    if (given == Activation::kRelu) {
      each([](float x) { return x > 0.0f || x != x ? x : 0.0f; });  // NaN stays
    } else if (given == Activation::kGelu) {
      each([](float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); });
    } else if (given == Activation::kSilu) {
      each([](float x) { return x / (1.0f + __expf(-x)); });
    }
  }
}

// Raises a float to the largest of a warp's magnitudes, which are the bits of floats: in their order, NaN above all.
__device__ __forceinline__ void raise(float* amax, uint32_t magnitude) {
  uint32_t const largest = __reduce_max_sync(~0u, magnitude);
  if (threadIdx.x % 32 == 0) {
    atomicMax(reinterpret_cast<uint32_t*>(amax), largest);
  }
}

// What the sums are multiplied by.
__device__ __forceinline__ float factor_of(EpilogueParams const& params) {
  float const a = params.scale_a != nullptr ? *params.scale_a : 1.0f;
  float const b = params.scale_b != nullptr ? *params.scale_b : 1.0f;
  return params.alpha * a * b;
}

// One element of D, of a warp whose threads all call.
template <class ElementD, Activation kActivation>
__device__ __forceinline__ void store_element(EpilogueParams const& params, float sum, int row, int column,
                                              int matrix) {
  bool const there = row < params.m && column < params.n;
  float value = sum * factor_of(params);
  if (there && params.bias != nullptr) {
    value += load(params.type_bias, params.bias, column);
  }
  if (there && params.c != nullptr) {
    value += params.beta * load(params.type_c, params.c, matrix * params.batch_stride_c + row * params.ld_c + column);
  }
  float one[1] = {value};
  activate<kActivation>(one, params.activation);
  value = one[0];
  if constexpr (ElementD::kBytes == 1) {
    if (params.amax != nullptr) {
      raise(params.amax, there ? __float_as_uint(value) & 0x7FFFFFFFu : 0);
    }
    value *= params.scale_result != nullptr ? *params.scale_result : 1.0f;
  }
  if (there) {
    ElementD::store(params.d, matrix * params.batch_stride_d + row * params.ld_d + column, value);
  }
}

}  // namespace tilewright::sm90
