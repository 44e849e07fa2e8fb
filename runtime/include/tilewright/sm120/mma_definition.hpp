// mma.sync in software, by the PTX ISA: where elements and scale factors lie in a warp's registers, what their bits
// mean, and the product. The host and every GPU compute it, so that kernels that need an instruction of sm_120 run
// without it, and so that the instruction itself is tested against something (tools/doctor/self_test).
#pragma once

#include <cstdint>
#include <cstring>

namespace tilewright::sm90 {
struct Bf16;  // elements.hpp, which the host does not need
struct F16;
struct E4m3;
struct E5m2;
}  // namespace tilewright::sm90

namespace tilewright::sm120 {

#define TILEWRIGHT_ANYWHERE __host__ __device__ __forceinline__

// Operand types that no kernel stores to memory.
struct E2m1 {
  static constexpr char kName[] = ".e2m1";
};
struct S8;
struct Ue8m0;
struct Ue4m3;

// Places, by the PTX ISA's figures "MMA .m16n8k16 fragment layout for matrix A with .f16 / .bf16 type" and those that
// follow it. Element i of a register is the i-th from its lowest bit. Every form has the same layout, counted in words:
// a row of A has two halves of four words along k, and thread t of quad g (lane 4g + t) holds word t of both halves,
// for rows g and g + 8. Of B it holds both words for column g.
constexpr TILEWRIGHT_ANYWHERE int a_row(int lane, int word) { return lane / 4 + word % 2 * 8; }
constexpr TILEWRIGHT_ANYWHERE int a_word_of_row(int lane, int word) { return word / 2 * 4 + lane % 4; }
constexpr TILEWRIGHT_ANYWHERE int b_column(int lane) { return lane / 4; }
constexpr TILEWRIGHT_ANYWHERE int b_word_of_column(int lane, int word) { return word * 4 + lane % 4; }
constexpr TILEWRIGHT_ANYWHERE int d_row(int lane, int i) { return lane / 4 + i / 2 * 8; }
constexpr TILEWRIGHT_ANYWHERE int d_column(int lane, int i) { return lane % 4 * 2 + i % 2; }

// The lanes whose registers hold the scale factors (PTX ISA, "Block scaling for mma.sync"). `thread` is the thread-id
// of the instruction: 0 or 1 for A, which takes two threads of each quad, and 0 to 3 for B, which takes one. The factor
// of block j along k is byte (byte-id + j) of the register.
constexpr TILEWRIGHT_ANYWHERE int a_scale_lane(int row, int thread) { return row % 8 * 4 + thread * 2 + row / 8; }
constexpr TILEWRIGHT_ANYWHERE int b_scale_lane(int column, int thread) { return column * 4 + thread; }

// The value of 2^exponent, for exponents of F32's normal and subnormal range and more.
TILEWRIGHT_ANYWHERE double power_of_two(int exponent) {
  uint64_t const bits = static_cast<uint64_t>(exponent + 1023) << 52;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// A number of a sign, `Exponent` bits and `Mantissa` bits, if it is finite.
template <int Exponent, int Mantissa>
TILEWRIGHT_ANYWHERE double finite_value(uint32_t bits) {
  constexpr int kBias = (1 << (Exponent - 1)) - 1;
  int const exponent = bits >> Mantissa & ((1 << Exponent) - 1), fraction = bits & ((1 << Mantissa) - 1);
  double const magnitude = exponent == 0 ? fraction * power_of_two(1 - kBias - Mantissa)
                                         : (fraction + (1 << Mantissa)) * power_of_two(exponent - kBias - Mantissa);
  return bits >> (Exponent + Mantissa) & 1 ? -magnitude : magnitude;
}

TILEWRIGHT_ANYWHERE double not_a_number() {
  uint64_t const bits = 0x7FF8000000000000;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// The same with infinities and NaNs as IEEE 754 has them.
template <int Exponent, int Mantissa>
TILEWRIGHT_ANYWHERE double ieee_value(uint32_t bits) {
  constexpr uint32_t kInfinity = ((1u << Exponent) - 1) << Mantissa, kMagnitude = (1u << (Exponent + Mantissa)) - 1;
  if ((bits & kMagnitude) < kInfinity) {
    return finite_value<Exponent, Mantissa>(bits);
  }
  double const infinity = power_of_two(1023) * 2;
  double const magnitude = (bits & kMagnitude) == kInfinity ? infinity : not_a_number();
  return bits > kMagnitude ? -magnitude : magnitude;
}

// An operand or a scale factor in its container of kBits bits.
template <class Type>
struct Code;

template <>
struct Code<sm90::Bf16> {
  static constexpr int kBits = 16;
  static TILEWRIGHT_ANYWHERE double value(uint32_t bits) { return ieee_value<8, 7>(bits & 0xFFFF); }
};
template <>
struct Code<sm90::F16> {
  static constexpr int kBits = 16;
  static TILEWRIGHT_ANYWHERE double value(uint32_t bits) { return ieee_value<5, 10>(bits & 0xFFFF); }
};
template <>
struct Code<sm90::E4m3> {
  static constexpr int kBits = 8;
  static TILEWRIGHT_ANYWHERE double value(uint32_t bits) {  // no infinities; 0x7F and 0xFF are NaN
    return (bits & 0x7F) == 0x7F ? not_a_number() : finite_value<4, 3>(bits & 0xFF);
  }
};
template <>
struct Code<sm90::E5m2> {
  static constexpr int kBits = 8;
  static TILEWRIGHT_ANYWHERE double value(uint32_t bits) { return ieee_value<5, 2>(bits & 0xFF); }
};
template <>
struct Code<S8> {
  static constexpr int kBits = 8;
  static TILEWRIGHT_ANYWHERE int value(uint32_t bits) { return static_cast<int8_t>(bits & 0xFF); }
};
template <>
struct Code<E2m1> {  // two elements to a byte, the first in the lower bits
  static constexpr int kBits = 4;
  static TILEWRIGHT_ANYWHERE double value(uint32_t bits) { return finite_value<2, 1>(bits & 0xF); }
};
template <>
struct Code<Ue8m0> {
  static constexpr int kBits = 8;
  static TILEWRIGHT_ANYWHERE double value(uint32_t bits) {
    return (bits & 0xFF) == 0xFF ? not_a_number() : power_of_two(static_cast<int>(bits & 0xFF) - 127);
  }
};
template <>
struct Code<Ue4m3> {  // E4M3 whose sign is 0
  static constexpr int kBits = 8;
  static TILEWRIGHT_ANYWHERE double value(uint32_t bits) { return Code<sm90::E4m3>::value(bits & 0x7F); }
};

// E2M1 in a byte, as kind::mxf8f6f4 reads it: in bits 2 to 5. The other bits do not count.
template <class Type>
struct ByteCode : Code<Type> {};
template <>
struct ByteCode<E2m1> {
  static constexpr int kBits = 8;
  static TILEWRIGHT_ANYWHERE double value(uint32_t bits) { return Code<E2m1>::value(bits >> 2); }
};

// Which scale factors an instruction takes: the first byte of their registers, and the threads of a quad.
struct ScaleSource {
  int a_byte = 0, b_byte = 0, a_thread = 0, b_thread = 0;
};

// The product of `Form` (mma.hpp) for one lane: adds to d. `lanes` reads registers of any lane: a(lane, word),
// b(lane, word), and, if the form has scale factors, a_scales(lane) and b_scales(lane). The sum of an element is exact
// to the 53 bits of a double, and is rounded once, where the instruction's sum of 32 or 64 products keeps fewer bits.
template <class Form, class Lanes>
TILEWRIGHT_ANYWHERE void multiply_in_software(typename Form::Sum (&d)[4], int lane, Lanes const& lanes,
                                              ScaleSource source = {}) {
  constexpr int kElements = 32 / Form::CodeA::kBits;                   // in a word
  constexpr int kWordsOfBlock = 8 / (Form::kBlocks + !Form::kBlocks);  // a word of k lies in one block
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int const row = d_row(lane, i), column = d_column(lane, i);
    typename Form::Exact sum = 0;
#pragma unroll
    for (int word = 0; word < 8; ++word) {
      uint32_t const x = lanes.a(row % 8 * 4 + word % 4, word / 4 * 2 + i / 2);
      uint32_t const y = lanes.b(column * 4 + word % 4, word / 4);
      typename Form::Exact products = 0;
#pragma unroll
      for (int element = 0; element < kElements; ++element) {
        int const shift = element * Form::CodeA::kBits;
        products += Form::CodeA::value(x >> shift) * Form::CodeB::value(y >> shift);
      }
      if constexpr (Form::kBlocks > 0) {
        int const block = word / kWordsOfBlock;
        uint32_t const of_row = lanes.a_scales(a_scale_lane(row, source.a_thread));
        uint32_t const of_column = lanes.b_scales(b_scale_lane(column, source.b_thread));
        products *= Form::CodeScale::value(of_row >> (source.a_byte + block) * 8) *
                    Form::CodeScale::value(of_column >> (source.b_byte + block) * 8);
      }
      sum += products;
    }
    d[i] = static_cast<typename Form::Sum>(d[i] + sum);
  }
}

#undef TILEWRIGHT_ANYWHERE

}  // namespace tilewright::sm120
