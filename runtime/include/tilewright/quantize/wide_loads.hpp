// Sources whose threads load 32 bytes with one instruction. Targets starting at sm_100 have it.
#pragma once

#include <cstdint>

#include "tilewright/quantize/rows.hpp"

namespace tilewright::quantize {

// As `load` of elements.hpp. An address that is no multiple of 32 bytes, which a row's stride may lead to, is loaded in
// two halves. All lanes of a warp load the same row, so none diverges.
__device__ __forceinline__ void load_wide(void const* address, uint32_t (&words)[8], bool valid) {
  if (valid && reinterpret_cast<uintptr_t>(address) % 32 == 0) {
    asm volatile("ld.global.nc.v8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]), "=r"(words[4]), "=r"(words[5]),
                   "=r"(words[6]), "=r"(words[7])
                 : "l"(address));
  } else {
    load(address, words, valid);
  }
}

template <class Type>
struct WidePlain : Plain<Type> {
  static __device__ __forceinline__ void read(Params const&, char const* address,
                                              uint32_t (&words)[Elements<Type>::kWords], bool valid) {
    load_wide(address, words, valid);
  }
};

template <class Type, bool kExact>
struct WideSiluMul : SiluMul<Type, kExact> {
  using Of = Elements<Type>;

  static __device__ __forceinline__ void read(Params const& params, char const* address,
                                              uint32_t (&words)[2 * Of::kWords], bool valid) {
    uint32_t half[Of::kWords];
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      load_wide(address + part * int64_t(params.k) * Of::kBytes, half, valid);
#pragma unroll
      for (int i = 0; i < Of::kWords; ++i) {
        words[part * Of::kWords + i] = half[i];
      }
    }
  }
};

}  // namespace tilewright::quantize
