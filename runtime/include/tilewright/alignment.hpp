// Where operands begin.
#pragma once

#include <cstdint>

namespace tilewright {

// Whether an address is a multiple of `bytes`, as a load or store of so many needs it. Null is: `can_implement` is
// asked before there are operands.
inline bool is_aligned(void const* address, int bytes) {
  return reinterpret_cast<uintptr_t>(address) % static_cast<unsigned>(bytes) == 0;
}

}  // namespace tilewright
