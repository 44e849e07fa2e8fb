// Decodes a packed weight on the host as the threads of a warpgroup do: see test_mixed_decode.py. Reads elements and
// scales of 64 rows by 128 of k from the standard input, writes the weights as 16-bit numbers [64, 128].
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "host_halves.hpp"
#include "tilewright/mixed_gemm/decode8.hpp"
#include "tilewright/mixed_gemm/early_format.hpp"
#include "tilewright/mixed_gemm/quick.hpp"
#include "tilewright/mixed_gemm/quick_int4.hpp"

using namespace tilewright::mixed_gemm;

namespace {

enum class Way { kPlain, kQuick, kEarly };  // decode.hpp, quick.hpp, early_format.hpp

// Decodes a piece as `early.hpp` does.
template <class Format>
void decode_early(uint32_t const (&words)[4], typename Format::Scales const& scales, uint32_t (&out)[16]) {
  using Early = EarlyFormat<Format>;
  auto const factors = Early::factors(scales);
  for (int step = 0; step < 4; ++step) {
    if (Early::are_usual(scales)) {
      Early::decode(words[step], factors, step, out + 4 * step);
    } else {
      uint32_t pairs[4];
      Format::decode(words + step, scales, step, pairs);
      std::memcpy(out + 4 * step, pairs, sizeof pairs);
    }
  }
}

template <class Format, Way kWay = kHasUsualScales<Format> ? Way::kQuick : Way::kPlain>
int decode() {
  constexpr int kGroups = Format::kGroup < 64 ? 64 / Format::kGroup : 1;
  constexpr int kPieceScales = 64 * Format::kScaleBytes * kGroups;
  constexpr int kUnitScales = Format::kGroup == 128 ? kPieceScales : 2 * kPieceScales;
  constexpr int kParts = Format::kBits / 4;  // of a piece: 16 bytes of each thread
  static uint8_t elements[4096 * kParts], scales[kUnitScales];
  static uint16_t weights[64][128];
  if (std::fread(elements, 1, sizeof elements, stdin) != sizeof elements ||
      std::fread(scales, 1, sizeof scales, stdin) != sizeof scales) {
    return 2;
  }
  for (int piece = 0; piece < 2; ++piece) {
    for (int thread = 0; thread < 128; ++thread) {
      uint32_t words[kParts][4];
      for (int part = 0; part < kParts; ++part) {
        std::memcpy(words[part], elements + (piece * kParts + part) * 2048 + thread * 16, 16);
      }
      typename Format::Scales own;
      int const at = Format::kGroup == 128 ? 0 : piece * kPieceScales;
      std::memcpy(&own, scales + at + thread / 4 * int(sizeof own), sizeof own);
      uint32_t fragments[16];
      if constexpr (kWay == Way::kEarly) {
        decode_early<Format>(words[0], own, fragments);
      } else if constexpr (kWay == Way::kQuick) {
        // Also half of the piece, as kernels with few registers decode it.
        uint32_t half[8];
        decode_quickly<Format, 2>(words[0], own, 2, half);
        decode_quickly<Format, 4>(words[0], own, 0, fragments);
        if (std::memcmp(half, fragments + 8, sizeof half) != 0) {
          return 4;
        }
      } else {
        for (int step = 0; step < 4; ++step) {
          uint32_t fragment[4];
          Format::decode(words[step * kParts / 4] + step * kParts % 4, own, step, fragment);
          std::memcpy(fragments + 4 * step, fragment, sizeof fragment);
        }
      }
      for (int step = 0; step < 4; ++step) {
        uint32_t const* const fragment = fragments + 4 * step;
        // PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16": a0, a1 and so on of a thread.
        int const warp = thread / 32, g = thread % 32 / 4, c = thread % 4;
        for (int i = 0; i < 8; ++i) {
          int const row = 16 * warp + g + (i % 4 >= 2 ? 8 : 0);
          int const column = piece * 64 + step * 16 + c * 2 + i % 2 + (i >= 4 ? 8 : 0);
          weights[row][column] = uint16_t(fragment[i / 2] >> i % 2 * 16);
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
      {"bf16 int4_g128", decode<Int4<Bf16, 128, false>, Way::kPlain>},
      {"bf16 int4_g64", decode<Int4<Bf16, 64, false>>},
      {"bf16 int4_g32", decode<Int4<Bf16, 32, false>>},
      {"bf16 int4_zp_g128", decode<Int4<Bf16, 128, true>>},
      {"bf16 int4_zp_g64", decode<Int4<Bf16, 64, true>>},
      {"bf16 int4_zp_g32", decode<Int4<Bf16, 32, true>>},
      {"f16 int4_g128", decode<Int4<F16, 128, false>>},
      {"f16 int4_zp_g32", decode<Int4<F16, 32, true>>},
      {"bf16 mxfp4", decode<Mxfp4>},
      {"bf16 nvfp4", decode<Nvfp4<Bf16>>},
      {"quick bf16 int4_g128", decode<Int4<Bf16, 128, false>>},
      {"quick bf16 mxfp4", decode<Mxfp4>},
      {"early bf16 int4_g128", decode<Int4<Bf16, 128, false>, Way::kEarly>},
      {"early bf16 mxfp4", decode<Mxfp4, Way::kEarly>},
      {"early bf16 nvfp4", decode<Nvfp4<Bf16>, Way::kEarly>},
      {"f16 nvfp4", decode<Nvfp4<F16>>},
      {"bf16 int8_g128", decode<Int8<Bf16>>},
      {"f16 int8_g128", decode<Int8<F16>>},
      {"bf16 e4m3_g128", decode<E4m3<Bf16>>},
      {"f16 e4m3_g128", decode<E4m3<F16>>}};
  for (auto const& [name, function] : formats) {
    if (std::strcmp(name, arguments[1]) == 0) {
      return function();
    }
  }
  return 3;
}
