// The parameters of an epilogue (epilogue.hpp), which host and device share.
#pragma once

#include <cstdint>

namespace tilewright::sm90 {

enum class Addend : int32_t;  // elements.hpp

// The activation of D, which a launch names. A kernel is compiled with kNone, or with kGiven, which applies the one
// that the launch names.
enum class Activation { kNone, kRelu, kGelu, kSilu, kGiven };

// Fields that are read before the first product come first: see `ProductParams`.
struct EpilogueParams {
  void const* c;         // null where beta is 0
  float const* scale_a;  // null for 1; scale_b too
  float const* scale_b;
  float alpha, beta;
  int n_boxes;  // how many of D's first columns TMA stores: whole 16 bytes; 0 where D is not aligned for TMA
  Activation activation;
  void const* bias;  // along n, or null
  void* d;
  float const* scale_result;  // for D of FP8; null for 1
  float* amax;                // for D of FP8: raised to the largest magnitude; or null
  int64_t ld_c, ld_d;         // elements
  int64_t batch_stride_c, batch_stride_d;
  int m, n;
  Addend type_c, type_bias;
};

}  // namespace tilewright::sm90
