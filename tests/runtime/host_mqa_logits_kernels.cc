// Kernels of `mqa_logits` that run on the host, behind the ABI of real ones.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tilewright/abi.h"
#include "tilewright/mqa_logits/args.h"

namespace {

using Args = tilewright_mqa_logits_args;
constexpr int kSplit = 64;

float e4m3(uint8_t bits) {
  int const exponent = bits >> 3 & 15, mantissa = bits & 7;
  float const magnitude = exponent == 0 ? std::ldexp(float(mantissa), -9) : std::ldexp(8.0f + mantissa, exponent - 10);
  return bits >> 7 != 0 ? -magnitude : magnitude;
}

// FP4 lies two to a byte, the even index in the low nibble.
float e2m1(uint8_t const* row, int i) {
  constexpr float kMagnitudes[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  int const code = row[i / 2] >> (i % 2 * 4) & 15;
  return code > 7 ? -kMagnitudes[code - 8] : kMagnitudes[code];
}

// A key, or a head of a query, and its scale, or word of exponents. FP4 where there are scales of queries.
struct Row {
  uint8_t const* data;
  uint32_t scale;
  bool fp4;

  float operator[](int i) const {
    return fp4 ? std::ldexp(e2m1(data, i), int(scale >> (i / 32 * 8) & 0xff) - 127) : e4m3(data[i]);
  }
  float factor() const {
    float value = 1.0f;
    if (!fp4) {
      std::memcpy(&value, &scale, 4);
    }
    return value;
  }
};

bool is_fp4(Args const& args) { return args.q_scale != nullptr; }

Row ragged_key(Args const& args, int, int j) {
  int64_t const at = j * args.ld_kv / (is_fp4(args) ? 2 : 1);
  return {static_cast<uint8_t const*>(args.kv) + at, static_cast<uint32_t const*>(args.kv_scale)[j], is_fp4(args)};
}

Row paged_key(Args const& args, int query, int j) {
  int const sequence = args.indices != nullptr ? query : query / args.next_n;
  int const bytes = args.head_dim / (is_fp4(args) ? 2 : 1);
  int64_t const page = args.block_table[sequence * args.ld_block_table + j / args.page];
  auto const* const at = static_cast<uint8_t const*>(args.kv_cache) + page * args.ld_kv_cache;
  Row key{at + j % args.page * bytes, 0, is_fp4(args)};
  std::memcpy(&key.scale, at + args.page * bytes + j % args.page * 4, 4);
  return key;
}

void store(Args const& args, bool bf16, int64_t at, float value) {
  if (!bf16) {
    static_cast<float*>(args.out)[at] = value;
    return;
  }
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  static_cast<uint16_t*>(args.out)[at] = uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <bool kPaged, bool kBf16>
int32_t launch_logits(void const* opaque, void*, void*) {
  Args const& args = *static_cast<Args const*>(opaque);
  for (int i = 0; i < args.queries; ++i) {
    int start = 0, end;
    if (kPaged) {
      end = args.per_token ? args.lengths[i] : args.lengths[i / args.next_n] - args.next_n + 1 + i % args.next_n;
      end = std::min(end, args.width);
    } else {
      start = std::clamp(args.starts[i], 0, args.keys);
      end = std::min(args.ends[i], args.keys);
    }
    int const origin = args.compressed ? start : 0;
    for (int column = 0; column < args.width; ++column) {
      int const j = column + origin;
      if (j < start || j >= end) {
        if (args.clean) {
          store(args, kBf16, i * args.ld_out + column, -INFINITY);
        }
        continue;
      }
      Row const key = kPaged ? paged_key(args, i, j) : ragged_key(args, i, j);
      float sum = 0.0f;
      for (int h = 0; h < args.heads; ++h) {
        int64_t const at = (i * args.batch_stride_q + h * args.ld_q) / (is_fp4(args) ? 2 : 1);
        uint32_t const scale = is_fp4(args) ? args.q_scale[i * args.heads + h] : 0;
        Row const q{static_cast<uint8_t const*>(args.q) + at, scale, is_fp4(args)};
        float product = 0.0f;
        for (int d = 0; d < args.head_dim; ++d) {
          product += q[d] * key[d];
        }
        sum += std::max(product, 0.0f) * args.weights[i * args.ld_weights + h];
      }
      store(args, kBf16, i * args.ld_out + column, sum * key.factor());
    }
  }
  return TILEWRIGHT_OK;
}

int32_t launch_schedule(void const* opaque, void*, void*) {
  Args const& args = *static_cast<Args const*>(opaque);
  auto* const schedule = static_cast<int32_t*>(args.out);
  int const sequences = args.queries / args.next_n;
  auto const splits = [&](int sequence) {
    int const* const lengths = args.lengths + sequence * args.next_n;
    return (std::max(0, *std::max_element(lengths, lengths + args.next_n)) + kSplit - 1) / kSplit;
  };
  int64_t total = 0;
  for (int sequence = 0; sequence < sequences; ++sequence) {
    total += splits(sequence);
  }
  for (int64_t block = 0; block <= args.blocks; ++block) {
    int64_t begins = block * total / args.blocks;
    int sequence = 0;
    while (sequence < sequences && begins >= splits(sequence)) {
      begins -= splits(sequence++);
    }
    schedule[args.ld_out * block] = sequence, schedule[args.ld_out * block + 1] = int32_t(begins);
  }
  return TILEWRIGHT_OK;
}

int32_t can_implement(void const*) { return TILEWRIGHT_OK; }
int64_t workspace_bytes(void const*) { return 0; }

constexpr tilewright_kernel kernel(char const* name, int32_t (*launch)(void const*, void*, void*)) {
  return {TILEWRIGHT_ABI_VERSION, sizeof(Args), 256, 0, name, &can_implement, &workspace_bytes, launch};
}

}  // namespace

#define HOST_KERNEL(NAME, LAUNCH)                                                               \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME = \
      kernel("host_" #NAME, &LAUNCH);

HOST_KERNEL(host_mqa_ragged, (launch_logits<false, false>))
HOST_KERNEL(host_mqa_ragged_bf16, (launch_logits<false, true>))
HOST_KERNEL(host_mqa_paged, (launch_logits<true, false>))
HOST_KERNEL(host_mqa_ragged_fp4, (launch_logits<false, false>))
HOST_KERNEL(host_mqa_paged_fp4, (launch_logits<true, false>))
HOST_KERNEL(host_mqa_schedule, launch_schedule)
