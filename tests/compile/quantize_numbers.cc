// Asks the mathematics of quantising (tilewright/quantize/{numbers,half_pairs,thresholds}.hpp) about floats, beside
// what defines it: IEEE division, and comparisons with the boundaries. Prints what is checked and how many were wrong.
//
//   quantize_numbers STRIDE    every STRIDE-th float, and all next to a power of two; 1: all 2^32
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "tilewright/quantize/half_pairs.hpp"
#include "tilewright/quantize/numbers.hpp"
#include "tilewright/quantize/thresholds.hpp"

namespace {

using namespace tilewright::quantize;

uint64_t stride = 1;
int failures = 0;

void report(char const* what, uint64_t asked, uint64_t wrong) {
  std::printf("%s %llu %llu\n", what, static_cast<unsigned long long>(asked), static_cast<unsigned long long>(wrong));
  failures += wrong != 0;
}

// Calls `wrong(bits)` for floats that are not negative; counts what it says.
template <class Wrong>
void ask(char const* what, Wrong wrong) {
  uint64_t asked = 0, count = 0;
  auto const one = [&](uint32_t bits) {
    ++asked;
    count += wrong(bits);
  };
  for (uint64_t bits = 0; bits <= 0x7FFFFFFF; bits += stride) {
    one(static_cast<uint32_t>(bits));
  }
  if (stride > 1) {
    for (uint32_t exponent = 0; exponent < 256; ++exponent) {
      for (uint32_t quarter = 0; quarter < 8; ++quarter) {
        for (int near = -4; near <= 4; ++near) {
          one(((exponent << 23) + (quarter << 20) + near) & 0x7FFFFFFF);
        }
      }
    }
  }
  report(what, asked, count);
}

bool same(float x, float y) { return bits_of(x) == bits_of(y) || (x != x && y != y); }

template <int kDivisor>
bool divide_by_is_wrong(uint32_t bits) {
  float volatile const amax = float_of(bits);
  return !same(divide_by<kDivisor>(amax), amax / float(kDivisor));
}

// UE8M0, rounded up, of a quotient.
uint32_t ue8m0(float quotient) {
  if (quotient != quotient) {
    return 0xFF;
  }
  uint32_t const exponent = bits_of(quotient) >> 23, fraction = bits_of(quotient) & 0x7FFFFF;
  uint32_t const code = exponent + (exponent == 0 ? fraction > 0x400000 : fraction != 0);
  return code < 0xFE ? code : 0xFE;
}

template <int kMax>
bool ue8m0_is_wrong(uint32_t bits) {
  float volatile const amax = float_of(bits);
  return ue8m0_of_amax<kMax>(bits) != ue8m0(amax / float(kMax));
}

// The nearest code, ties to even, by distances; what is beyond the largest is that.
template <int kMantissa>
uint32_t nearest(float value, uint32_t largest) {
  double const most = kMantissa == 3 ? decode_e4m3(largest) : decode_e5m2(largest), near = value < most ? value : most;
  uint32_t best = 0;
  double distance = 1e300;
  for (uint32_t code = 0; code <= largest; ++code) {
    double const other = kMantissa == 3 ? decode_e4m3(code) : decode_e5m2(code);
    double const away = std::fabs(other - near);
    if (away < distance || (away == distance && code % 2 == 0)) {
      best = code;
      distance = away;
    }
  }
  return best;
}

bool e2m1_is_wrong(uint32_t bits) {
  float const value = float_of(bits);
  return value == value && bits_of(e2m1_sum(value)) - bits_of(0x1p23f) != encode_e2m1(value);
}

// E4M3 (3) or E5M2 (2) of a float and of its negative.
template <int kMantissa>
bool fp8_is_wrong(uint32_t bits) {
  float const value = float_of(bits);
  uint32_t const code = value != value ? 0x7F : nearest<kMantissa>(value, kMantissa == 3 ? 0x7E : 0x7B);
  uint32_t const negative = value != value ? code : code | 0x80;
  return encode_fp8_in_software<kMantissa>(value) != code || encode_fp8_in_software<kMantissa>(-value) != negative;
}

// The value of a code with so many bits of exponent and mantissa, all of whose exponents are of numbers.
double value_of(uint32_t code, int mantissa_bits, int bias) {
  int const exponent = int(code >> mantissa_bits), mantissa = int(code & ((1u << mantissa_bits) - 1));
  int const hidden = exponent == 0 ? 0 : 1 << mantissa_bits;
  return std::ldexp(mantissa + hidden, (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
}

// Every code of the small formats, and factors of UE8M0 scales.
void ask_codes() {
  uint64_t asked = 0, wrong = 0;
  auto const check = [&](double found, double expected) { ++asked, wrong += !same(float(found), float(expected)); };
  for (uint32_t code = 0; code < 256; ++code) {
    uint32_t const size = code & 0x7F;
    double const sign = code & 0x80 ? -1 : 1;
    check(decode_e4m3(code), size == 0x7F ? NAN : sign * value_of(size, 3, 7));
    check(decode_e5m2(code), size > 0x7C ? NAN : sign * (size == 0x7C ? INFINITY : value_of(size, 2, 15)));
    check(decode_e2m1(code), (code & 8 ? -1 : 1) * value_of(code & 7, 1, 1));
    check(decode_ue8m0(code), code == 0xFF ? NAN : std::ldexp(1.0, int(code) - 127));
    check(ue8m0_factor(code), code == 0xFF ? NAN : std::ldexp(1.0, 127 - int(code)));
  }
  report("codes", asked, wrong);
}

// Words of special and ordinary values, with special and ordinary factors.
void ask_words(int count) {
  std::mt19937_64 random(1);
  float const special[] = {
      0.0f, -0.0f, float_of(kInfinity), -float_of(kInfinity), float_of(1), float_of(0x80000001), 3e38f, -3.4e38f,
      1.0f, -2.5f};
  uint64_t asked = 0, wrong = 0;
  for (int i = 0; i < count; ++i) {
    float x[8];
    bool infinite = false;
    for (float& value : x) {
      uint64_t const draw = random();
      uint32_t const bits = static_cast<uint32_t>(draw);
      value = draw >> 62 == 0 ? special[bits % 10] : float_of((bits & 0x81FFFFFF) + 0x3E000000);
      infinite = infinite || (bits_of(value) & 0x7FFFFFFF) == kInfinity;
    }
    uint64_t const draw = random();
    uint32_t const bits = static_cast<uint32_t>(draw) & 0x7FFFFFFF;
    float const factors[] = {float_of(kInfinity), float_of(0x7FC00000), 0.0f, float_of(bits),
                             float_of((bits & 0x01FFFFFF) + 0x3F000000)};
    float const factor = factors[draw >> 32 & 7 ? (draw >> 35) % 2 + 3 : (draw >> 35) % 3];
    if (factor == 0.0f && !infinite) {
      continue;  // a factor of 0 comes of an amax that is infinite
    }
    uint32_t wanted = 0;
    for (int j = 0; j < 8; ++j) {
      wanted |= encode_e2m1(x[j] * factor) << (4 * j);
    }
    float const tamed = nonzero_factor(factor);
    uint32_t word = e2m1_word_in_software(x, tamed);
    word = is_regular(tamed) ? word : repair_word(word, tamed);
    ++asked;
    wrong += word != wanted;
  }
  report("words", asked, wrong);
}

// NVFP4 of E4M3: blocks of every largest magnitude, with every element beside it, for many global scales.
void ask_thresholds(int count) {
  std::mt19937_64 random(2);
  uint64_t asked = 0, wrong = 0;
  float const special[] = {1.0f,
                           500.0f,
                           448.0f,
                           2688.0f,
                           1.0f / 3,
                           0.0f,
                           -0.0f,
                           -2.0f,
                           1e-38f,
                           3e38f,
                           1e-6f,
                           3e-5f,
                           1e-3f,
                           float_of(1),
                           float_of(kInfinity),
                           -float_of(kInfinity),
                           float_of(0x7FC00000)};
  int const specials = sizeof special / sizeof *special;
  for (int i = 0; i < count; ++i) {
    uint32_t const draw = static_cast<uint32_t>(random());
    float global = i < specials ? special[i] : i % 2 != 0 ? float(draw % 4096 + 1) / 16 : float_of(draw);
    for (uint32_t amax = 0; amax < 128; ++amax) {
      Thresholds const made = thresholds_of_amax(amax, global);
      uint32_t const scale = nvfp4_scale(decode_e4m3(amax), global);
      float const factor = amax == 0 ? 0.0f : nvfp4_factor(scale, global);
      wrong += (made.scale & 0xFF) != scale;
      for (uint32_t code : {amax, amax | 0x80}) {
        float volatile const quotient = decode_e4m3(code) / global;
        wrong += !same(nvfp4_factor(code, global), 1.0f / quotient);
      }
      for (uint32_t first = 0; first < 256; first += 14) {
        uint32_t x[16], words[4] = {}, wanted[2] = {};
        uint32_t const at = first / 14 % 16;
        for (uint32_t j = 0; j < 16; ++j) {
          uint32_t const code = (first + j) & 0xFF;
          x[j] = j == at ? amax | (first & 0x80) : (code & 0x7F) > amax ? (code & 0x80) | code % (amax + 1) : code;
          words[j / 4] |= x[j] << j % 4 * 8;
          wanted[j / 8] |= encode_e2m1(decode_e4m3(x[j]) * factor) << j % 8 * 4;
        }
        SortedE4m3 const sorted(words);
        wrong += sorted.amax() != amax;
        for (int half = 0; half < 2; ++half) {
          uint32_t data = sorted.encode(half, made.least);
          if (made.scale >= kZeroIsNan) {
            data = repair_word(data, float_of(made.scale >= kAllIsNan ? 0x7FFFFFFF : kInfinity));
          }
          wrong += data != wanted[half];
        }
        asked += 16;
      }
    }
  }
  report("thresholds", asked, wrong);
}

// Words of every float with so many bits in its significand whose product is at most 6, for every `step`-th power of
// two; and of blocks with infinities and NaN.
template <int kSignificand>
void ask_pairs(char const* what, int step) {
  constexpr uint32_t kUlp = 1u << (24 - kSignificand);
  uint64_t asked = 0, wrong = 0;
  auto const one = [&](float const(&x)[8], float factor) {
    uint32_t wanted = 0;
    for (uint32_t j = 0; j < 8; ++j) {
      wanted |= encode_e2m1(x[j] * factor) << (4 * j);
    }
    ++asked;
    wrong += e2m1_word_of_pairs<kSignificand>(x, factor) != wanted;
  };
  for (int power = -125; power <= 127; power += step) {
    float const most = static_cast<float>(std::ldexp(6.0, -power));
    for (uint32_t bits = 0; float_of(bits) <= most && bits < kInfinity; bits += 8 * kUlp) {
      float x[8];
      for (uint32_t j = 0; j < 8; ++j) {
        float const size = float_of(bits + (j * 5 + (bits >> 20)) % 8 * kUlp);  // in every place of the word
        x[j] = (size <= most ? size : most) * ((bits / kUlp >> j ^ j) & 8 ? -1.0f : 1.0f);
      }
      one(x, std::ldexp(1.0f, power));
    }
  }
  float const infinity = float_of(kInfinity), nan = float_of(0x7FC00000);
  one({infinity, -infinity, 0x1.8p127f, -0x1.ap127f, 0.0f, -0.0f, 0x1p126f, -1.0f}, 0x1p-127f);
  one({nan, -infinity, 1.0f, -1.5f, 0.0f, -0.0f, 0x1p126f, -nan}, nan);
  report(what, asked, wrong);
}

}  // namespace

int main(int, char** arguments) {
  stride = std::strtoull(arguments[1], nullptr, 10);
  ask("divide_by<6>", divide_by_is_wrong<6>);
  ask("divide_by<448>", divide_by_is_wrong<448>);
  ask("fp8_scale", [](uint32_t bits) {
    float volatile const amax = float_of(bits);
    return !same(fp8_scale(amax), (amax < 1e-4f ? 1e-4f : amax) / 448.0f);
  });
  ask("ue8m0<6>", ue8m0_is_wrong<6>);
  ask("ue8m0<448>", ue8m0_is_wrong<448>);
  ask("ue8m0<57344>", ue8m0_is_wrong<57344>);
  ask("e2m1", e2m1_is_wrong);
  ask_codes();
  stride *= stride > 1 ? 64 : 4096;  // the search is slow
  ask("e4m3", fp8_is_wrong<3>);
  ask("e5m2", fp8_is_wrong<2>);
  ask_words(stride > 100000 ? 500000 : 20000000);
  ask_thresholds(stride > 100000 ? 600 : 20000);
  ask_pairs<8>("pairs<8>", stride > 100000 ? 18 : 1);
  ask_pairs<11>("pairs<11>", stride > 100000 ? 18 : 1);
  return failures != 0;
}
