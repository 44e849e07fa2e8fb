// Decodes a packed weight on the host as the threads of a warpgroup decode it to FP8: see test_mixed_fp8_decode.py.
// Reads elements and scales of 64 rows by 128 of k from the standard input. Writes the weights [64, 128], and the
// factors of the rows for each block of k [64, blocks], as doubles.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "host_halves.hpp"
#include "tilewright/mixed_fp8_gemm/decode.hpp"

using namespace tilewright;
using namespace tilewright::mixed_fp8_gemm;

namespace {

template <class Format>
int decode() {
  constexpr int kBlocks = 128 / Format::kBlock, kScales = 64 * (128 / Format::kGroup) * Format::kScaleBytes;
  static double weights[64][128], factors[64][kBlocks];
  if (std::fread(sm90::memory, 1, 4096 + kScales, stdin) != 4096 + kScales) {
    return 2;
  }
  for (uint32_t thread = 0; thread < 128; ++thread) {
    threadIdx.x = 128 + thread;  // of the second warpgroup
    typename Format::Scales scales;
    scales.load(4096);
    uint32_t const warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
    for (int row = 0; row < 2; ++row) {
      for (int block = 0; block < kBlocks; ++block) {
        factors[16 * warp + g + 8 * row][block] = double(scales.factor(block, row)) * Format::kFactor;
      }
    }
    for (int chunk = 0; chunk < 8; ++chunk) {
      Elements elements;
      elements.load(0, chunk / 2);
      uint32_t const pair[2] = {elements.words[0][chunk % 2], elements.words[1][chunk % 2]};
      uint32_t out[2];
      Format::decode(pair, scales, chunk, out);
      // PTX ISA, "Register fragments for wgmma.mma_async.m64nNk32": the four bytes of a0 and so on of a thread.
      for (int row = 0; row < 2; ++row) {
        for (uint32_t i = 0; i < 4; ++i) {
          weights[16 * warp + g + 8 * row][chunk * 16 + t * 4 + i] = Format::Weight::value(out[row] >> i * 8 & 0xFF);
        }
      }
    }
  }
  std::fwrite(weights, 1, sizeof weights, stdout);
  std::fwrite(factors, 1, sizeof factors, stdout);
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
                                                                  {"bf16 mxfp4", decode<Mxfp4>}};
  for (auto const& [name, function] : formats) {
    if (std::strcmp(name, arguments[1]) == 0) {
      return function();
    }
  }
  return 3;
}
