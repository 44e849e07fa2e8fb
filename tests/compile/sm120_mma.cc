// mma.sync of sm_120 in software, as a library for test_sm120_mma.py: the code that GPUs without the instruction run.
#include <cstdint>
#include <cstdlib>

#define __host__
#define __device__
#define __forceinline__ inline

struct {
  int x;
} threadIdx;
uint32_t __shfl_sync(uint32_t, uint32_t, int) { std::abort(); }
float __uint_as_float(uint32_t) { std::abort(); }

#include "tilewright/sm120/mma.hpp"

namespace {

using namespace tilewright::sm120;
using tilewright::sm90::Bf16;
using tilewright::sm90::E4m3;
using tilewright::sm90::E5m2;
using tilewright::sm90::F16;

// The registers of a warp.
struct Warp {
  uint32_t const (*a_words)[4];
  uint32_t const (*b_words)[2];
  uint32_t const *a_factors, *b_factors;

  uint32_t a(int lane, int word) const { return a_words[lane][word]; }
  uint32_t b(int lane, int word) const { return b_words[lane][word]; }
  uint32_t a_scales(int lane) const { return a_factors[lane]; }
  uint32_t b_scales(int lane) const { return b_factors[lane]; }
};

template <class Form>
void multiply(void* sums, Warp const& warp, ScaleSource source) {
  for (int lane = 0; lane < 32; ++lane) {
    multiply_in_software<Form>(static_cast<typename Form::Sum(*)[4]>(sums)[lane], lane, warp, source);
  }
}

}  // namespace

#define FORM(NAME, ...)                                                                                    \
  extern "C" void NAME(void* sums, uint32_t const(*a)[4], uint32_t const(*b)[2], uint32_t const* a_scales, \
                       uint32_t const* b_scales, int byte_a, int byte_b, int thread_a, int thread_b) {     \
    multiply<__VA_ARGS__>(sums, {a, b, a_scales, b_scales}, {byte_a, byte_b, thread_a, thread_b});         \
  }

FORM(bf16, MmaBf16)
FORM(f16, MmaF16)
FORM(s8, MmaInt8)
FORM(e4m3_e4m3, MmaFp8<E4m3, E4m3>)
FORM(e4m3_e5m2, MmaFp8<E4m3, E5m2>)
FORM(e5m2_e4m3, MmaFp8<E5m2, E4m3>)
FORM(e5m2_e5m2, MmaFp8<E5m2, E5m2>)
FORM(mx_e4m3_e4m3, MmaMxf8<E4m3, E4m3>)
FORM(mx_e4m3_e2m1, MmaMxf8<E4m3, E2m1>)
FORM(mx_e4m3_e5m2, MmaMxf8<E4m3, E5m2>)
FORM(mx_e5m2_e4m3, MmaMxf8<E5m2, E4m3>)
FORM(mx_e5m2_e5m2, MmaMxf8<E5m2, E5m2>)
FORM(mx_e5m2_e2m1, MmaMxf8<E5m2, E2m1>)
FORM(mx_e2m1_e4m3, MmaMxf8<E2m1, E4m3>)
FORM(mx_e2m1_e5m2, MmaMxf8<E2m1, E5m2>)
FORM(mx_e2m1_e2m1, MmaMxf8<E2m1, E2m1>)
FORM(mxf4, MmaMxf4)
FORM(nvf4, MmaNvf4)

// The value of every code of a type.
#define CODES(NAME, ...)                                               \
  extern "C" void NAME(double* values) {                               \
    for (uint32_t code = 0; code < 1u << __VA_ARGS__::kBits; ++code) { \
      values[code] = static_cast<double>(__VA_ARGS__::value(code));    \
    }                                                                  \
  }

CODES(codes_bf16, Code<Bf16>)
CODES(codes_f16, Code<F16>)
CODES(codes_e4m3, Code<E4m3>)
CODES(codes_e5m2, Code<E5m2>)
CODES(codes_s8, Code<S8>)
CODES(codes_e2m1, Code<E2m1>)
CODES(codes_e2m1_in_bytes, ByteCode<E2m1>)
CODES(codes_ue8m0, Code<Ue8m0>)
CODES(codes_ue4m3, Code<Ue4m3>)
