// Decodes a packed weight on the host as the threads of a warpgroup decode it to FP8: see test_mixed_fp8_decode.py.
// Reads elements and scales of 64 rows by 128 of k from the standard input. Writes the weights [64, 128] as a product
// with an identity gives them: promoted in F32, and multiplied by the format's factor. Fails if a decoder that works
// ahead for two slices, both of these weights, gives a thread other words.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "host_halves.hpp"

namespace tilewright::sm90 {

inline void store_words(uint32_t address, uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  uint32_t const words[4] = {x, y, z, w};
  std::memcpy(memory + address, words, 16);
}
// One thread runs after the other: none waits.
inline void barrier_init(uint32_t, uint32_t) {}
inline void barrier_wait(uint32_t, uint32_t) {}
inline void barrier_arrive(uint32_t) {}

}  // namespace tilewright::sm90

inline void __syncwarp() {}
// CUDA math API, "SIMD intrinsics": absolute differences of unsigned bytes.
inline uint32_t __vabsdiffu4(uint32_t x, uint32_t y) {
  uint32_t result = 0;
  for (int shift = 0; shift < 32; shift += 8) {
    int const difference = static_cast<int>(x >> shift & 0xFF) - static_cast<int>(y >> shift & 0xFF);
    result |= static_cast<uint32_t>(std::abs(difference)) << shift;
  }
  return result;
}

#include "tilewright/mixed_fp8_gemm/mxfp4_groups.hpp"
#include "tilewright/mixed_fp8_gemm/decode.hpp"
#include "tilewright/mixed_fp8_gemm/decoding_warpgroup.hpp"
#include "tilewright/mixed_fp8_gemm/quick_int4.hpp"

using namespace tilewright;
using namespace tilewright::mixed_fp8_gemm;

namespace {

// Two slices in the same memory, and a buffer for each.
struct OneUnit {
  static constexpr int Slices = 2, Buffers = 1;
  static uint32_t weights(uint32_t, int, int) { return 0; }
  static uint32_t scales(uint32_t, int, int) { return 4096; }
  static uint32_t buffer(uint32_t, int slice, int) { return 8192 * (1 + slice); }
  static uint32_t full(uint32_t, int) { return 0; }
  static uint32_t decoded(uint32_t, int, int) { return 0; }
  static uint32_t taken(uint32_t, int, int) { return 0; }
};

// Whether the calling thread finds the fragments of a chunk of 16 of k in both slices' buffers.
bool decoded_ahead(int chunk, uint32_t const (&out)[2]) {
  for (int slice = 0; slice < 2; ++slice) {
    uint32_t const own = fragment_offset(own_quad(), own_half(), static_cast<int>(threadIdx.x) % 2);
    uint32_t words[4];
    sm90::load_words(OneUnit::buffer(0, slice, 0) + chunk / 2 * kStepBytes + own, words);
    if (words[chunk % 2 * 2] != out[0] || words[chunk % 2 * 2 + 1] != out[1]) {
      return false;
    }
  }
  return true;
}

template <class Format>
int decode() {
  constexpr int kBlocks = 128 / Format::kBlock, kScales = 64 * (128 / Format::kGroup) * Format::kScaleBytes;
  static float weights[64][128], factors[64][kBlocks];
  if (std::fread(sm90::memory, 1, 4096 + kScales, stdin) != 4096 + kScales) {
    return 2;
  }
  for (uint32_t thread = 0; thread < 128; ++thread) {
    threadIdx.x = 256 + thread;  // of the third warpgroup
    Decoder<Format, OneUnit, 1>{0}.run(1);
  }
  for (uint32_t thread = 0; thread < 128; ++thread) {
    threadIdx.x = 128 + thread;  // of the second warpgroup
    typename Format::Scales scales;
    scales.load(4096, own_quad());
    uint32_t const warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
    for (int row = 0; row < 2; ++row) {
      for (int block = 0; block < kBlocks; ++block) {
        factors[16 * warp + g + 8 * row][block] = scales.factor(block, row);
      }
    }
    for (int chunk = 0; chunk < 8; ++chunk) {
      Elements elements;
      elements.load(0, chunk / 4);
      uint32_t out[2];
      elements.decode<Format>(scales, chunk / 4, chunk % 4, own_half(), out);
      if (!decoded_ahead(chunk, out)) {
        return 4;
      }
      // PTX ISA, "Register fragments for wgmma.mma_async.m64nNk32": the four bytes of a0 and so on of a thread.
      for (int row = 0; row < 2; ++row) {
        for (uint32_t i = 0; i < 4; ++i) {
          uint32_t const line = 16 * warp + g + 8 * row, k = chunk * 16 + t * 4 + i;
          float const number = Format::Weight::value(out[row] >> i * 8 & 0xFF);
          weights[line][k] = std::fmaf(number, factors[line][k / Format::kBlock], 0.0f) * Format::kFactor;
        }
      }
    }
  }
  std::fwrite(weights, 1, sizeof weights, stdout);
  return 0;
}

}  // namespace

int main(int, char** arguments) {
  using sm90::Bf16;
  using sm90::F16;
  std::vector<std::pair<char const*, int (*)()>> const formats = {{"bf16 int4_g128", decode<Int4<Bf16, 128, false>>},
                                                                  {"bf16 int4_g64", decode<Int4<Bf16, 64, false>>},
                                                                  {"bf16 int4_g32", decode<Int4<Bf16, 32, false>>},
                                                                  {"bf16 int4_zp_g128", decode<Int4<Bf16, 128, true>>},
                                                                  {"bf16 int4_zp_g64", decode<Int4<Bf16, 64, true>>},
                                                                  {"bf16 int4_zp_g32", decode<Int4<Bf16, 32, true>>},
                                                                  {"f16 int4_g128", decode<Int4<F16, 128, false>>},
                                                                  {"f16 int4_zp_g32", decode<Int4<F16, 32, true>>},
                                                                  {"bf16 int4_g128 quick", decode<QuickInt4<Bf16>>},
                                                                  {"f16 int4_g128 quick", decode<QuickInt4<F16>>},
                                                                  {"bf16 mxfp4", decode<Mxfp4>},
                                                                  {"bf16 mxfp4 groups", decode<Mxfp4Groups>}};
  for (auto const& [name, function] : formats) {
    if (std::strcmp(name, arguments[1]) == 0) {
      return function();
    }
  }
  return 3;
}
