// Tries on the host what fp4.hpp and products.hpp bring to the tensor cores: see test_mqa_fp4.py.
//
// A function of a warp runs for one thread after the other, twice: the first time it tells which rows of shared memory
// ldmatrix is to read, the second time it gets them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "host_wgmma.hpp"

#define __device__
#define __forceinline__ inline
#define __CUDA_ARCH__ 1200

using std::max;

namespace {

struct Index {
  int x;
};
Index threadIdx;
uint8_t memory[1 << 18];  // shared memory
int faults = 0;

uint32_t word_at(uint32_t address) {
  uint32_t word;
  std::memcpy(&word, memory + address, 4);
  return word;
}

struct Matrices {
  bool asked = false;              // whether all rows are told
  std::vector<uint32_t> rows[32];  // of each lane, for each call
  size_t calls = 0;
} matrices;

template <class Body>
void each_lane(int warp, Body const& body) {
  for (auto& rows : matrices.rows) {
    rows.clear();
  }
  for (bool asked : {false, true}) {
    matrices.asked = asked;
    for (int lane = 0; lane < 32; ++lane) {
      threadIdx.x = warp * 32 + lane;
      matrices.calls = 0;
      body(lane, asked);
    }
  }
}

}  // namespace

namespace host {

float value(uint16_t bf16) {
  uint32_t const bits = uint32_t(bf16) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// The product must be exact.
uint16_t multiply_halves(uint16_t x, uint16_t y) {
  float const product = value(x) * value(y);
  uint32_t bits;
  std::memcpy(&bits, &product, 4);
  faults += (bits & 0xFFFF) != 0 || double(product) != double(value(x)) * double(value(y));
  return uint16_t(bits >> 16);
}

uint32_t multiply(uint32_t x, uint32_t y) {
  return multiply_halves(x & 0xFFFF, y & 0xFFFF) | uint32_t(multiply_halves(x >> 16, y >> 16)) << 16;
}

}  // namespace host

// What the headers take of PTX.
float __uint_as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
uint32_t __shfl_sync(uint32_t, uint32_t, int) { std::abort(); }
float __shfl_xor_sync(uint32_t, float, int) { std::abort(); }

namespace tilewright::sm90 {

template <class Type, int N>
struct WgmmaRegisters;

float load_float(uint32_t address) { return __uint_as_float(word_at(address)); }
uint32_t load_word(uint32_t address) { return word_at(address); }
template <int Count>
void load_words(uint32_t address, uint32_t (&words)[Count]) {
  std::memcpy(words, memory + address, sizeof words);
}
void store_word(uint32_t address, uint32_t word) { std::memcpy(memory + address, &word, 4); }

// PTX ISA, "ldmatrix": thread t gives row t % 8 of matrix t / 8, and gets word t % 4 of row t / 4 of each.
void load_matrices(uint32_t row, uint32_t (&words)[4]) {
  int const lane = threadIdx.x % 32;
  if (!matrices.asked) {
    matrices.rows[lane].push_back(row);
    return;
  }
  for (int i = 0; i < 4; ++i) {
    words[i] = word_at(matrices.rows[i * 8 + lane / 4][matrices.calls] + lane % 4 * 4);
  }
  ++matrices.calls;
}

}  // namespace tilewright::sm90

#include "tilewright/mqa_logits/fp4.hpp"
#include "tilewright/mqa_logits/reduction.hpp"

namespace {

using namespace tilewright::mqa_logits;

constexpr int kKeys = 64, kColumns = 32;
constexpr uint32_t kKeysAt = 0, kKeyWordsAt = 8192, kQueriesAt = 16384, kDecodedAt = 65536;

std::mt19937 random_bits(1);

double e2m1(int code) {
  constexpr double kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return code > 7 ? -kMagnitudes[code - 8] : kMagnitudes[code];
}

double exponent(uint32_t word, int block) { return std::ldexp(1.0, int(word >> 8 * block & 0xFF) - 127); }

// Rows of FP4 with their words, of which those of short rows hold two exponents.
struct Rows {
  int elements;
  std::vector<uint8_t> data;
  std::vector<uint32_t> words;

  Rows(int rows, int row_elements) : elements(row_elements), data(rows * row_elements / 2), words(rows) {
    for (uint8_t& byte : data) {
      byte = uint8_t(random_bits());
    }
    for (uint32_t& word : words) {
      word = row_elements == 64 ? 0xFFFF0000 : 0;
      for (int block = 0; block < row_elements / 32; ++block) {
        word |= uint32_t(120 + random_bits() % 20) << 8 * block;
      }
    }
  }

  double at(int row, int i) const {
    int const code = data[row * elements / 2 + i / 2] >> i % 2 * 4 & 15;
    return e2m1(code) * exponent(words[row], i / 32);
  }

  double times(int row, Rows const& other, int other_row) const {
    double sum = 0;
    for (int i = 0; i < elements; ++i) {
      sum += at(row, i) * other.at(other_row, i);
    }
    return sum;
  }

  // As TMA lays rows out under a swizzle of so many bytes; 0: none.
  void put(uint32_t address, int swizzle) const {
    int const bytes = elements / 2;
    for (size_t i = 0; i < data.size(); ++i) {
      uint32_t const row = uint32_t(i) / bytes, byte = uint32_t(i) % bytes;
      // 128 bytes of memory after the other: their number, of so many, changes the 16 bytes within a row.
      uint32_t const line = uint32_t(i) / 128 % (swizzle / 16 + !swizzle);
      memory[address + row * bytes + (swizzle ? byte ^ line * 16 : byte)] = data[i];
    }
  }
};

void expect(double found, double wanted, char const* what, int row, int column) {
  if (found != wanted && ++faults < 5) {
    std::printf("%s: key %d, column %d: %g, not %g\n", what, row, column, found, wanted);
  }
}

double half(uint32_t pair, int i) { return host::value(uint16_t(pair >> 16 * i)); }

// Keys in registers, queries in shared memory as wgmma reads them.
template <int HeadDim>
void decoded() {
  using Product = Decoded<HeadDim>;
  Rows const keys(kKeys, HeadDim), queries(kColumns, HeadDim);
  keys.put(kKeysAt, 0);
  queries.put(kQueriesAt, 0);
  std::memcpy(memory + kKeyWordsAt, keys.words.data(), kKeys * 4);
  for (int column = 0; column < kColumns; ++column) {
    for (int part = 0; part < 4; ++part) {
      Product::template decode_query<kColumns>(kDecodedAt, kQueriesAt + column * HeadDim / 2, column, part,
                                               queries.words[column]);
    }
  }
  double sums[kKeys][kColumns] = {};
  for (int thread = 0; thread < 128; ++thread) {
    threadIdx.x = thread;
    typename Product::Keys const own(kKeysAt, kKeyWordsAt);
    int const g = thread % 32 / 4, t = thread % 4;
    for (int step = 0; step < HeadDim / 16; ++step) {
      for (int i = 0; i < 8; ++i) {
        // PTX ISA, "wgmma.mma_async", A of .bf16: register i / 2 has k = 2t and 2t + 1, of registers 2 and 3 8 more.
        int const row = thread / 32 * 16 + g + i / 2 % 2 * 8, k = step * 16 + i / 4 * 8 + 2 * t + i % 2;
        for (int column = 0; column < kColumns; ++column) {
          // Boxes of 64 of k, 128 bytes a row, whose 16 bytes are swizzled.
          uint32_t const byte = k % 64 * 2, line = kDecodedAt + (k / 64 * kColumns + column) * 128;
          uint32_t const b = word_at(line + ((byte & ~3u) ^ column % 8 * 16));
          sums[row][column] += half(own.elements[step][i / 2], i % 2) * half(b, k % 2);
        }
      }
    }
  }
  for (int row = 0; row < kKeys; ++row) {
    double const factor = Product::factor(kKeyWordsAt + row * 4);
    for (int column = 0; column < kColumns; ++column) {
      double const found = sums[row][column] * factor * Product::query_factor(queries.words[column]);
      expect(found, keys.times(row, queries, column), "decoded", row, column);
    }
  }
}

// PTX ISA, "mma.sync" of .kind::mxf4 and .scale_vec::2X: what each thread has of a step.
struct Fragments {
  uint32_t a[4], b[2], rows, columns;
};
std::vector<Fragments> seen[32];  // of each lane: two steps for each 8 columns

struct Recorder : Mxf4Mma {
  template <int Step>
  static void run(float (&)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1, uint32_t rows, uint32_t columns) {
    seen[threadIdx.x % 32].push_back({{a[0], a[1], a[2], a[3]}, {b0, b1}, rows >> 16 * Step, columns >> 16 * Step});
  }
};

template <int HeadDim>
void block_scaled() {
  using Product = Synchronous<HeadDim / 2, Recorder>;
  constexpr int kSteps = HeadDim / 64;
  Rows const keys(kKeys, HeadDim), queries(kColumns, HeadDim);
  keys.put(kKeysAt, HeadDim / 2);
  queries.put(kQueriesAt, HeadDim / 2);
  std::memcpy(memory + kKeyWordsAt, keys.words.data(), kKeys * 4);
  for (int warp = 0; warp < 4; ++warp) {
    each_lane(warp, [&](int lane, bool) {
      seen[lane].clear();
      typename Product::Keys const own(kKeysAt, kKeyWordsAt);
      uint32_t words[kColumns / 8];
      for (int n = 0; n < kColumns / 8; ++n) {
        words[n] = queries.words[n * 8 + lane / 4];
      }
      float products[kColumns / 2];
      Product::template multiply<kColumns, kColumns>(products, own, kQueriesAt, words);
    });
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < kColumns; ++column) {
        double sum = 0;
        for (int step = 0; step < kSteps; ++step) {
          int const call = column / 8 * kSteps + step;
          for (int k = 0; k < 64; ++k) {
            // Registers 0 and 1 of A are rows g and g + 8 of the first 32 of k, of which thread t has 8.
            int const t = k % 32 / 8, nibble = k % 8 * 4, block = k / 32;
            uint32_t const a = seen[row % 8 * 4 + t][call].a[row / 8 + block * 2] >> nibble & 15;
            uint32_t const b = seen[column % 8 * 4 + t][call].b[block] >> nibble & 15;
            // With a thread-id of 0, threads 0 and 1 of a quad have the scales of its rows, thread 0 of its column.
            uint32_t const of_row = seen[row % 8 * 4 + row / 8][call].rows;
            uint32_t const of_column = seen[column % 8 * 4][call].columns;
            sum += e2m1(int(a)) * exponent(of_row, block) * e2m1(int(b)) * exponent(of_column, block);
          }
        }
        expect(sum, keys.times(warp * 16 + row, queries, column), "block-scaled", warp * 16 + row, column);
      }
    }
  }
}

// Columns as TMA's box of [heads of a turn, queries of a set, turns] brings them.
template <int Heads, int Queries>
void columns() {
  using Reduce = Reduction<Heads, Queries, false>;
  int column = 0;
  for (int set = 0; set < Reduce::kSets; ++set) {
    for (int turn = 0; turn < Heads / Reduce::kTurn; ++turn) {
      for (int query = 0; query < Reduce::kSetQueries; ++query) {
        for (int head = 0; head < Reduce::kTurn; ++head, ++column) {
          int const wanted = (set * Reduce::kSetQueries + query) * Heads + turn * Reduce::kTurn + head;
          expect(Reduce::head_of(column), wanted, "head", Queries, column);
        }
      }
    }
  }
}

// The row's largest, of the ends of UE8M0's range.
void factors() {
  expect(Exponents<128>::factor(0), std::ldexp(1.0, -127), "factor", 0, 0);
  expect(Exponents<64>::factor(0xFFFF00FE), std::ldexp(1.0, 127), "factor", 254, 0);
  expect(std::isnan(Exponents<128>::factor(0xFF000000)), 1, "factor", 255, 0);
}

}  // namespace

int main() {
  factors();
  decoded<64>();
  decoded<128>();
  block_scaled<64>();
  block_scaled<128>();
  columns<64, 1>();
  columns<64, 2>();
  columns<32, 4>();
  columns<16, 8>();
  columns<16, 16>();
  if (faults != 0) {
    std::printf("%d faults\n", faults);
  }
  return faults != 0;
}
