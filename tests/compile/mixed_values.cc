// Decodes a packed weight on the host as the warps of a stream kernel do: see test_mixed_values.py. Reads elements and
// scales of 64 rows by 128 of k from the standard input, writes each weight times its group's scale as a double.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "host_halves.hpp"
using std::max;
#include "tilewright/mixed_gemm/exact_codes.hpp"

using namespace tilewright::mixed_gemm;

namespace {

template <class Type, class Format>
int decode() {
  constexpr int kGroups = Format::kGroup < 64 ? 64 / Format::kGroup : 1;
  constexpr int kPieceScales = 64 * Format::kScaleBytes * kGroups;
  constexpr int kUnitScales = Format::kGroup == 128 ? kPieceScales : 2 * kPieceScales;
  static uint8_t elements[4096], scales[kUnitScales];
  static double weights[64][128];
  if (std::fread(elements, 1, sizeof elements, stdin) != sizeof elements ||
      std::fread(scales, 1, sizeof scales, stdin) != sizeof scales) {
    return 2;
  }
  for (int piece = 0; piece < 2; ++piece) {
    for (int thread = 0; thread < 128; ++thread) {
      uint32_t words[4];
      std::memcpy(words, elements + piece * 2048 + thread * 16, 16);
      typename Format::Scales own;
      int const at = Format::kGroup == 128 ? 0 : piece * kPieceScales;
      std::memcpy(&own, scales + at + thread / 4 * int(sizeof own), sizeof own);
      for (int step = 0; step < 4; ++step) {
        uint32_t fragment[4];
        float factors[2];
        Values<Format>::numbers(words[step], own, step, fragment);
        Values<Format>::factors(own, step, factors);
        // PTX ISA, "Matrix fragments for mma.m16n8k16": a0, a1 and so on of a thread.
        int const part = thread / 32, g = thread % 32 / 4, c = thread % 4;
        for (int i = 0; i < 8; ++i) {
          int const down = i % 4 / 2, row = 16 * part + g + down * 8;
          int const column = piece * 64 + step * 16 + c * 2 + i % 2 + (i >= 4 ? 8 : 0);
          double const number = Type::value(fragment[i / 2] >> i % 2 * 16);
          weights[row][column] = number * Values<Format>::kFactor * factors[down];
        }
      }
    }
  }
  std::fwrite(weights, 1, sizeof weights, stdout);
  return 0;
}

}  // namespace

int main(int, char** arguments) {
  std::vector<std::pair<char const*, int (*)()>> const formats = {
      {"bf16 int4_g128", decode<Bf16, Int4<Bf16, 128, false>>},
      {"bf16 int4_g64", decode<Bf16, Int4<Bf16, 64, false>>},
      {"bf16 int4_g32", decode<Bf16, Int4<Bf16, 32, false>>},
      {"bf16 int4_zp_g128", decode<Bf16, Int4<Bf16, 128, true>>},
      {"bf16 int4_zp_g32", decode<Bf16, Int4<Bf16, 32, true>>},
      {"f16 int4_g128", decode<F16, Int4<F16, 128, false>>},
      {"f16 int4_zp_g32", decode<F16, Int4<F16, 32, true>>},
      {"bf16 mxfp4", decode<Bf16, Mxfp4>},
      {"bf16 nvfp4", decode<Bf16, Nvfp4<Bf16>>},
      {"f16 nvfp4", decode<F16, Nvfp4<F16>>}};
  for (auto const& [name, function] : formats) {
    if (std::strcmp(name, arguments[1]) == 0) {
      return function();
    }
  }
  return 3;
}
