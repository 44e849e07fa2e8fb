// The sizes of the argument structs that kernels of a family are compiled with.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

namespace tilewright {

// A family may append members to its struct, in a struct of their own whose first member is `base`
// (tilewright/<family>/appended_args.h). Kernels that read none of them were compiled with the base, and are passed the
// longer struct all the same: its first bytes are the base.
struct ArgsBytes {
  uint32_t whole, base;  // equal if nothing is appended

  constexpr bool fit(uint32_t kernel_bytes) const { return kernel_bytes == whole || kernel_bytes == base; }
};

template <class Args, class = void>
struct ArgsBytesOf {
  static constexpr ArgsBytes kValue{sizeof(Args), sizeof(Args)};
};

template <class Args>
struct ArgsBytesOf<Args, std::void_t<decltype(std::declval<Args&>().base)>> {
  static constexpr ArgsBytes kValue{sizeof(Args), sizeof(std::declval<Args&>().base)};
};

}  // namespace tilewright
