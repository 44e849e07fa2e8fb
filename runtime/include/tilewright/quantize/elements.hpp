// A thread's elements of a row: loaded 16 bytes at a time, their amax, and as floats.
#pragma once

#include <cstdint>

#include "tilewright/quantize/numbers.hpp"

namespace tilewright::quantize {

struct Bf16 {
  static constexpr int kSignificand = 8;  // bits
};
struct F16 {
  static constexpr int kSignificand = 11;
};
struct F32 {};
struct E4m3 {};

// The element of larger magnitude; NaN if either is NaN.
__device__ __forceinline__ float larger(float x, float y) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(fabsf(x)), "f"(fabsf(y)));
  return result;
}

namespace detail {

// The larger magnitudes of two pairs. The signs of the result mean nothing.
__device__ __forceinline__ uint32_t larger_pair(Bf16, uint32_t x, uint32_t y) {
  uint32_t result;
  asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(y));
  return result;
}

__device__ __forceinline__ uint32_t larger_pair(F16, uint32_t x, uint32_t y) {
  uint32_t result;
  asm("max.NaN.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(y));
  return result;
}

__device__ __forceinline__ void unpack(Bf16, uint32_t pair, float& low, float& high) {
  low = float_of(pair << 16);
  high = float_of(pair & 0xFFFF0000);
}

__device__ __forceinline__ void unpack(F16, uint32_t pair, float& low, float& high) {
  asm("{\n.reg .b16 a, b;\nmov.b32 {a, b}, %2;\ncvt.f32.f16 %0, a;\ncvt.f32.f16 %1, b;\n}\n"
      : "=f"(low), "=f"(high)
      : "r"(pair));
}

// Converts four E4M3 to two pairs of F16, exactly.
__device__ __forceinline__ void widen(uint32_t word, uint32_t& low, uint32_t& high) {
  asm("{\n.reg .b16 a, b;\nmov.b32 {a, b}, %2;\ncvt.rn.f16x2.e4m3x2 %0, a;\ncvt.rn.f16x2.e4m3x2 %1, b;\n}\n"
      : "=r"(low), "=r"(high)
      : "r"(word));
}

// `kCount` elements of 16 bits.
template <class Type, int kCount>
struct Pairs {
  uint32_t pairs[kCount / 2];

  __device__ __forceinline__ float amax() const {
    uint32_t most[kCount / 2];
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      most[i] = pairs[i];
    }
#pragma unroll
    for (int half = kCount / 4; half > 0; half /= 2) {
#pragma unroll
      for (int i = 0; i < half; ++i) {
        most[i] = larger_pair(Type{}, most[i], most[i + half]);
      }
    }
    float low, high;
    unpack(Type{}, most[0], low, high);
    return larger(low, high);
  }

  // Elements 8 * part to 8 * part + 7.
  __device__ __forceinline__ void floats(int part, float (&out)[8]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      unpack(Type{}, pairs[part * 4 + i], out[2 * i], out[2 * i + 1]);
    }
  }
};

}  // namespace detail

// The elements of a row that a thread takes at a time: kCount elements in kWords words, read as `Values`.
template <class Type>
struct Elements {  // Bf16, F16
  static constexpr int kBytes = 2, kCount = 16, kWords = 8;
  using Values = detail::Pairs<Type, kCount>;

  static __device__ __forceinline__ Values values(uint32_t const (&words)[kWords]) {
    Values result;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      result.pairs[i] = words[i];
    }
    return result;
  }
};

// E4M3 elements as loaded words; `pairs` converts them to F16.
struct E4m3Words {
  uint32_t words[4];

  __device__ __forceinline__ detail::Pairs<F16, 16> pairs() const {
    detail::Pairs<F16, 16> result;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      detail::widen(words[i], result.pairs[2 * i], result.pairs[2 * i + 1]);
    }
    return result;
  }
  __device__ __forceinline__ float amax() const { return pairs().amax(); }
  __device__ __forceinline__ void floats(int part, float (&out)[8]) const { pairs().floats(part, out); }
};

template <>
struct Elements<E4m3> {
  static constexpr int kBytes = 1, kCount = 16, kWords = 4;
  using Values = E4m3Words;

  static __device__ __forceinline__ Values values(uint32_t const (&words)[kWords]) {
    return {{words[0], words[1], words[2], words[3]}};
  }
};

// Floats, loaded or computed.
template <int kCount>
struct Floats {
  float value[kCount];

  __device__ __forceinline__ float amax() const {
    float most[kCount / 2];
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      most[i] = larger(value[2 * i], value[2 * i + 1]);
    }
#pragma unroll
    for (int half = kCount / 4; half > 0; half /= 2) {
#pragma unroll
      for (int i = 0; i < half; ++i) {
        most[i] = larger(most[i], most[i + half]);
      }
    }
    return most[0];
  }

  __device__ __forceinline__ void floats(int part, float (&out)[8]) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      out[i] = value[part * 8 + i];
    }
  }
};

template <>
struct Elements<F32> {
  static constexpr int kBytes = 4, kCount = 8, kWords = 8;
  using Values = Floats<kCount>;

  static __device__ __forceinline__ Values values(uint32_t const (&words)[kWords]) {
    Values result;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      result.value[i] = float_of(words[i]);
    }
    return result;
  }
};

__device__ __forceinline__ void prefetch(void const* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

// Loads from global memory that nothing writes after griddepcontrol.wait. Volatile, so that the compiler moves no load
// above that wait, as it may move a plain `__ldg`.
template <int kWords>
__device__ __forceinline__ void load_at_once(void const* address, uint32_t* words) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  if constexpr (kWords == 1) {
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(words[0]) : "l"(address));
  } else if constexpr (kWords == 2) {
    asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "l"(address));
  } else {
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(address));
  }
}

// Loads words, up to 16 bytes at a time, if `valid`; otherwise sets them to zero.
template <int kWords>
__device__ __forceinline__ void load(void const* address, uint32_t (&words)[kWords], bool valid) {
  constexpr int kStep = kWords < 4 ? kWords : 4;
#pragma unroll
  for (int i = 0; i < kWords; i += kStep) {
    if (valid) {
      load_at_once<kStep>(static_cast<char const*>(address) + i * 4, words + i);
    } else {
#pragma unroll
      for (int j = 0; j < kStep; ++j) {
        words[i + j] = 0;
      }
    }
  }
}

template <int kWords>
__device__ __forceinline__ void store(void* address, uint32_t const (&words)[kWords]) {
  if constexpr (kWords == 1) {
    asm volatile("st.global.u32 [%0], %1;" ::"l"(address), "r"(words[0]) : "memory");
  } else if constexpr (kWords == 2) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(address), "r"(words[0]), "r"(words[1]) : "memory");
  } else {
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(static_cast<char*>(address) + i * 4), "r"(words[i]),
                   "r"(words[i + 1]), "r"(words[i + 2]), "r"(words[i + 3])
                   : "memory");
    }
  }
}

}  // namespace tilewright::quantize
