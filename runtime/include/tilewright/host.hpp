// What turns a function of the host into a `tilewright_kernel`: kernels of the host's compiler, by which tests run
// whole calls on tensors of the CPU. A `Host` has Args (its family's struct), kThreads, kSharedBytes, and
//   static bool can_implement(Args const&);
//   static void run(Args const&);
#pragma once

#include <cstdint>
#include <cstring>

#include "tilewright/descriptor.hpp"

namespace tilewright {

template <class Host>
struct HostCalls {
  using Kernel = Host;
  using Args = typename Host::Args;

  static int32_t can_implement(void const* args) {
    return Host::can_implement(*static_cast<Args const*>(args)) ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
  }

  static int64_t workspace_bytes(void const*) { return 0; }

  static int32_t launch(void const* args, void*, void*) {
    int32_t const status = can_implement(args);
    if (status == TILEWRIGHT_OK) {
      Host::run(*static_cast<Args const*>(args));
    }
    return status;
  }
};

// A BF16 as it lies in memory: the upper half of a float.
struct Bf16 {
  uint16_t bits;

  Bf16() = default;

  // To the nearest, of two the even one. A NaN stays one.
  explicit Bf16(float value) {
    uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    bits = static_cast<uint16_t>(value != value ? word >> 16 | 0x40 : (word + 0x7FFF + (word >> 16 & 1)) >> 16);
  }

  explicit operator float() const {
    uint32_t const word = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &word, sizeof value);
    return value;
  }
};

}  // namespace tilewright

#define TILEWRIGHT_HOST_KERNEL(NAME, HOST)                                                      \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME = \
      tilewright::descriptor<tilewright::HostCalls<HOST>>(#NAME);
