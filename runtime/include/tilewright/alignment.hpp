// Alignment of operands.
#pragma once

#include <cstdint>

namespace tilewright {

// Whether an address is a multiple of `bytes`, as loads and stores of `bytes` need it. True for null, because
// `can_implement` is called before there are operands.
inline bool is_aligned(void const* address, int bytes) {
  return reinterpret_cast<uintptr_t>(address) % static_cast<unsigned>(bytes) == 0;
}

}  // namespace tilewright
