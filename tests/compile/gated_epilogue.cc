// Runs the epilogue of a gated activation on the host, thread after thread: see test_gated_epilogue.py. Sums of a
// warpgroup lie as wgmma leaves them. stmatrix and TMA's stores are done afterwards, from what all threads asked for.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __expf expf
#define __fdividef(x, y) ((x) / (y))

struct float2 {
  float x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct CUtensorMap {};
enum CUtensorMapSwizzle {
  CU_TENSOR_MAP_SWIZZLE_NONE,
  CU_TENSOR_MAP_SWIZZLE_32B,
  CU_TENSOR_MAP_SWIZZLE_64B,
  CU_TENSOR_MAP_SWIZZLE_128B
};

namespace {

struct Index {
  int x;
} threadIdx{0};

float2 make_float2(float x, float y) { return {x, y}; }
uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
void __syncwarp() {}
int max(int x, int y) { return x > y ? x : y; }
uint32_t __float_as_uint(float) { return 0; }
uint32_t __shfl_xor_sync(unsigned, uint32_t value, int) { return value; }
uint32_t __reduce_max_sync(unsigned, uint32_t value) { return value; }
uint32_t __byte_perm(uint32_t x, uint32_t, uint32_t) { return x; }
void atomicMax(uint32_t*, uint32_t) {}

// What a thread asked for, in its order. A store by TMA follows `after` stores of matrices.
struct Matrices {
  uint32_t address, words[4];
  int count;
  bool transposed;
};
struct BoxStore {
  size_t after;
  uint32_t source;
  int byte, row, matrix;
};
std::vector<Matrices> matrices[128];
std::vector<BoxStore> box_stores;

}  // namespace

namespace tilewright::sm90 {

enum class Addend : int32_t { kF32, kF16, kBf16 };

inline float wide(uint16_t bits) {
  uint32_t const word = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &word, 4);
  return value;
}
inline uint16_t narrow(float value) {
  uint32_t word;
  std::memcpy(&word, &value, 4);
  return static_cast<uint16_t>((word + 0x7FFF + (word >> 16 & 1)) >> 16);
}

struct Element {
  static constexpr int kBytes = 2;
  static constexpr Addend kAddend = Addend::kBf16;
  static uint32_t pack(float low, float high) { return narrow(low) | uint32_t{narrow(high)} << 16; }
  static float to_float(uint16_t bits) { return wide(bits); }
  static void store(void* d, int64_t i, float value) { static_cast<uint16_t*>(d)[i] = narrow(value); }
};
inline float value_of(Addend, uint32_t) { return 0.0f; }
inline float load(Addend type, void const* array, int64_t i) {
  return type == Addend::kF32 ? static_cast<float const*>(array)[i] : wide(static_cast<uint16_t const*>(array)[i]);
}

constexpr uint64_t kEvictFirst = 0;
inline bool elect_one() { return threadIdx.x % 32 == 0; }
inline void named_barrier_sync(int, int) {}
inline void fence_async_proxy() {}
inline void barrier_wait(uint32_t, uint32_t) {}
inline void barrier_expect(uint32_t, uint32_t) {}
inline void prefetch_line(void const*) {}
inline void store_pair(float*, float, float) {}
template <class... Any>
void copy_box(Any...) {}
void load_words(uint32_t address, uint32_t (&words)[4]);
inline void store_short(uint32_t, uint32_t) {}
template <bool kTransposed, class... Words>
void store_matrices(uint32_t address, Words... words) {
  matrices[threadIdx.x].push_back({address, {words...}, int(sizeof...(words)), kTransposed});
}
inline void store_box(uint32_t source, CUtensorMap const*, int byte, int row, int matrix) {
  box_stores.push_back({matrices[threadIdx.x].size(), source, byte, row, matrix});
}
inline void commit_stores() {}
template <int Pending>
void wait_for_stores() {}

}  // namespace tilewright::sm90

#include "tilewright/sm90/gated_epilogue.hpp"

using namespace tilewright::sm90;

namespace {

constexpr uint32_t kShared = 1024;  // where the buffers begin
uint8_t memory[1 << 17];

}  // namespace

void tilewright::sm90::load_words(uint32_t address, uint32_t (&words)[4]) { std::memcpy(words, memory + address, 16); }

namespace {

uint32_t swizzled(uint32_t address, CUtensorMapSwizzle swizzle) {
  uint32_t const mask = swizzle == CU_TENSOR_MAP_SWIZZLE_128B  ? 7
                        : swizzle == CU_TENSOR_MAP_SWIZZLE_64B ? 3
                        : swizzle == CU_TENSOR_MAP_SWIZZLE_32B ? 1
                                                               : 0;
  return address ^ ((address >> 7 & mask) << 4);
}

// PTX ISA, "stmatrix": thread 4 i + j of a warp has elements 2 j and 2 j + 1 of row i of each matrix; thread 8 g + i
// gives the address of row i of matrix g.
void store_of_a_warp(int warp, size_t event) {
  for (int g = 0; g < matrices[warp * 32][event].count; ++g) {
    for (int i = 0; i < 8; ++i) {
      for (int j = 0; j < 8; ++j) {
        Matrices const& holder = matrices[warp * 32 + i * 4 + j / 2][event];
        uint16_t const bits = static_cast<uint16_t>(holder.words[g] >> j % 2 * 16);
        int const row = holder.transposed ? j : i, column = holder.transposed ? i : j;
        uint32_t const address = matrices[warp * 32 + g * 8 + row][event].address + column * 2;
        std::memcpy(memory + address, &bits, 2);
      }
    }
  }
}

// A gate, what it lets through, and the bias of either: about 1.
float gate_at(int m, int j) { return float((m * 7 + j * 13) % 61) / 20.0f - 1.5f; }
float up_at(int m, int j) { return float((m * 11 + j * 5) % 53) / 25.0f - 1.0f; }
float bias_at(int i) { return float(i * 17 % 31) / 16.0f - 1.0f; }

enum class How { kRegisters, kAnyByTma, kAnyByThreads };

template <int Rows, int N, bool kSwapped, bool kShared_>
bool check(How how, bool with_bias) {
  constexpr int kSubtileColumns = kShared_ ? shared_subtile_columns(N, kSwapped, false) : subtile_columns(N, kSwapped);
  using Store = Epilogue<Element, Rows, N, kSwapped, kSiluMul, 2, kSubtileColumns>;
  // The warpgroup's tile begins at (row, column) of the kernel's plane. D ends within the tile.
  int const row = 2 * Rows * 64, column = kSwapped ? N : 4 * N, matrix = 1;
  int const m = kSwapped ? column + N - 3 : row + Rows * 64 - 5;
  int const n = (kSwapped ? row + Rows * 64 : column + N) / 2 - 8, wide_n = n + 24;
  std::vector<uint16_t> d(size_t(2) * m * wide_n, 0x7FC0), bias(2 * n);
  std::vector<float> bias_f32(2 * n);
  for (int i = 0; i < 2 * n; ++i) {
    bias[i] = narrow(bias_at(i)), bias_f32[i] = bias_at(i);
  }
  EpilogueParams params{};
  params.alpha = 0.75f, params.m = m, params.n = n, params.d = d.data(), params.ld_d = wide_n;
  params.batch_stride_d = int64_t(m) * wide_n;
  params.n_boxes = how == How::kAnyByThreads ? 0 : n;
  bool const f32 = how != How::kRegisters;
  params.type_bias = f32 ? Addend::kF32 : Addend::kBf16;
  params.bias = !with_bias ? nullptr : f32 ? static_cast<void const*>(bias_f32.data()) : bias.data();
  CUtensorMap const map;
  box_stores.clear();
  for (int thread = 0; thread < 128; ++thread) {
    matrices[thread].clear();
    threadIdx.x = thread;
    static float sums[Rows][N / 2];
    for (int r = 0; r < Rows; ++r) {
      for (int i = 0; i < N / 2; ++i) {
        int const own_row = row + r * 64 + thread / 32 * 16 + thread % 32 / 4 + i % 4 / 2 * 8;
        int const own_column = column + i / 4 * 8 + thread % 4 * 2 + i % 2;
        int const of_n = kSwapped ? own_row : own_column, of_m = kSwapped ? own_column : own_row;
        int const j = of_n / 16 * 8 + of_n % 8;
        sums[r][i] = of_n % 16 < 8 ? gate_at(of_m, j) : up_at(of_m, j);
      }
    }
    Store store(params, &map, kShared, 1);
    if (how == How::kRegisters) {
      store.store(sums, row, column, matrix);
    } else {
      for (int subtile = 0; subtile < Rows * Store::kSubtiles; ++subtile) {
        float values[Store::kColumnGroups * 4];
        std::copy_n(sums[subtile / Store::kSubtiles] + subtile % Store::kSubtiles * Store::kColumnGroups * 4,
                    Store::kColumnGroups * 4, values);
        store.store_any(values, {}, row + subtile / Store::kSubtiles * 64,
                        column + subtile % Store::kSubtiles * Store::kColumns, matrix);
      }
    }
    store.drain();
  }
  for (size_t event = 0; event < matrices[0].size(); ++event) {
    for (int warp = 0; warp < 4; ++warp) {
      store_of_a_warp(warp, event);
    }
    for (BoxStore const& box : box_stores) {
      for (int i = 0; box.after == event + 1 && i < Store::kBoxRows; ++i) {
        for (int j = 0; j < Store::kBoxBytes / 2; ++j) {
          int const at_m = box.row + i, at_n = box.byte / 2 + j;
          uint32_t const end = kShared + 2 * Store::kBytes;
          uint32_t const address = swizzled(box.source + i * Store::kBoxBytes + j * 2, Store::kSwizzle);
          if (address >= end || address < kShared + Store::kBytes) {
            std::printf("a box lies at %u, outside of the warpgroup's buffers\n", address);
            return false;
          }
          if (at_m < m && at_n < params.n_boxes) {
            std::memcpy(&d[(size_t(box.matrix) * m + at_m) * wide_n + at_n], memory + address, 2);
          }
        }
      }
    }
  }
  long written = 0;
  for (int l = 0; l < 2; ++l) {
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < wide_n; ++j) {
        uint16_t const bits = d[(size_t(l) * m + i) * wide_n + j];
        int const first_m = kSwapped ? column : row, first_n = (kSwapped ? row : column) / 2;
        if (l != matrix || i < first_m || j < first_n || j >= n) {
          if (bits != 0x7FC0) {
            std::printf("(%d, %d) of matrix %d is written, outside of the tile\n", i, j, l);
            return false;
          }
          continue;
        }
        double const gate = 0.75 * gate_at(i, j) + (with_bias ? bias_at(j) : 0.0f);
        double const up = 0.75 * up_at(i, j) + (with_bias ? bias_at(n + j) : 0.0f);
        double const expected = gate / (1 + std::exp(-gate)) * up, actual = wide(bits);
        if (!(std::fabs(actual - expected) <= 0.01 * std::fabs(expected) + 1e-3)) {
          std::printf("(%d, %d) is %g, expected %g\n", i, j, actual, expected);
          return false;
        }
        ++written;
      }
    }
  }
  return written > 0;
}

// Rows of D in turn: stored, cleared, left. With `partial` false, all are stored.
struct Rows {
  bool partial;

  bool every() const { return !partial; }
  bool none_left() const { return !partial; }
  RowFate operator()(int row) const {
    return !partial || row % 3 == 0 ? RowFate::kStored : row % 3 == 1 ? RowFate::kCleared : RowFate::kLeft;
  }
};

// Sums of gate and up that are scaled and biased, NaN in rows that are not stored. Each subtile has a buffer of its
// own, so that all threads can store twice: once the boxes are known, threads copy rows from them.
template <int kRows, int N>
bool check_rows(bool partial) {
  using Store = Epilogue<Element, kRows, N, true, kSiluMul>;
  static_assert(kRows * Store::kSubtiles <= Store::kBuffers);
  Rows const rows{partial};
  int const row = 2 * kRows * 64, column = N, matrix = 1;
  int const m = column + N - 3, n = row / 2 + kRows * 32 - 8, wide_n = n + 24;
  std::vector<uint16_t> d(size_t(2) * m * wide_n, 0x7FC0);
  EpilogueParams params{};
  params.m = m, params.n = n, params.ld_d = wide_n, params.batch_stride_d = int64_t(m) * wide_n;
  params.d = d.data();
  CUtensorMap const map;
  for (int pass = 0; pass < 2; ++pass) {
    std::fill(d.begin(), d.end(), 0x7FC0);
    box_stores.clear();
    for (int thread = 0; thread < 128; ++thread) {
      matrices[thread].clear();
      threadIdx.x = thread;
      static float sums[kRows][N / 2];
      for (int r = 0; r < kRows; ++r) {
        for (int i = 0; i < N / 2; ++i) {
          int const of_n = row + r * 64 + thread / 32 * 16 + thread % 32 / 4 + i % 4 / 2 * 8;
          int const of_m = column + i / 4 * 8 + thread % 4 * 2 + i % 2;
          int const j = of_n / 16 * 8 + of_n % 8;
          sums[r][i] = rows(of_m) != RowFate::kStored ? NAN : of_n % 16 < 8 ? gate_at(of_m, j) : up_at(of_m, j);
        }
      }
      Store store(params, &map, kShared, 1);
      store.store_rows(sums, row, column, matrix, rows);
      store.drain();
    }
    for (size_t event = 0; event < matrices[0].size(); ++event) {
      for (int warp = 0; warp < 4; ++warp) {
        store_of_a_warp(warp, event);
      }
    }
  }
  for (BoxStore const& box : box_stores) {
    for (int i = 0; i < Store::kBoxRows * Store::kBoxBytes / 2; ++i) {
      int const at_m = box.row + i / (Store::kBoxBytes / 2), at_n = box.byte / 2 + i % (Store::kBoxBytes / 2);
      uint16_t bits;
      std::memcpy(&bits, memory + swizzled(box.source + i * 2, Store::kSwizzle), 2);
      if (at_m < m && at_n < n) {
        d[(size_t(box.matrix) * m + at_m) * wide_n + at_n] = bits;
      }
    }
  }
  for (int l = 0; l < 2; ++l) {
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < wide_n; ++j) {
        uint16_t const bits = d[(size_t(l) * m + i) * wide_n + j];
        bool const outside = l != matrix || i < column || j < row / 2 || j >= n || rows(i) == RowFate::kLeft;
        double const gate = gate_at(i, j), right = gate / (1 + std::exp(-gate)) * up_at(i, j);
        double const expected = rows(i) == RowFate::kCleared ? 0 : right;
        bool const close = std::fabs(wide(bits) - expected) <= 0.01 * std::fabs(expected) + 1e-3;
        if (outside ? bits != 0x7FC0 : !close) {
          std::printf("(%d, %d) of matrix %d is %g, expected %s%g\n", i, j, l, wide(bits), outside ? "no " : "",
                      expected);
          return false;
        }
      }
    }
  }
  return box_stores.empty() == partial;
}

template <int kRows, int N>
void check_rows_of(char const* what) {
  for (bool const partial : {false, true}) {
    if (!check_rows<kRows, N>(partial)) {
      std::printf("  %s%s\n", what, partial ? ", rows that are left" : "");
    }
  }
}

template <int Rows, int N, bool kSwapped>
void check_all(char const* what) {
  for (bool const bias : {false, true}) {
    bool const right = check<Rows, N, kSwapped, false>(How::kRegisters, bias) &&
                       check<Rows, N, kSwapped, true>(How::kAnyByTma, bias) &&
                       check<Rows, N, kSwapped, true>(How::kAnyByThreads, bias);
    if (!right) {
      std::printf("  %s%s\n", what, bias ? " with a bias" : "");
    }
  }
}

}  // namespace

int main() {
  check_all<1, 256, false>("128x256");
  check_all<2, 160, false>("256x160");
  check_all<1, 48, false>("64x48");
  check_all<1, 32, false>("64x32");
  check_all<3, 96, false>("192x96");
  check_all<2, 144, false>("128x144");
  check_all<1, 208, false>("128x208");
  check_all<1, 8, true>("64x8, swapped");
  check_all<1, 16, true>("64x16, swapped");
  check_all<1, 24, true>("64x24, swapped");
  check_all<1, 56, true>("64x56, swapped");
  check_all<2, 152, true>("256x152, swapped");
  check_all<3, 88, true>("192x88, swapped");
  check_all<1, 104, true>("128x104, swapped");
  check_rows_of<1, 64>("64x64 of groups");
  check_rows_of<2, 32>("128x32 of groups");
  check_rows_of<1, 16>("64x16 of groups");
  check_rows_of<1, 40>("64x40 of groups");
}
