// Tries on the host whether an epilogue overwrites a buffer that TMA still reads: see test_store_buffers.py. One thread
// stores tiles, of which some have rows that are left; bulk groups end as late as PTX allows.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <vector>

#define __device__
#define __forceinline__ inline

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
} threadIdx{0};  // the thread that tells TMA

float2 make_float2(float x, float y) { return {x, y}; }
uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
void __syncwarp() {}
int max(int x, int y) { return x > y ? x : y; }
uint32_t __float_as_uint(float) { return 0; }
uint32_t __shfl_xor_sync(unsigned, uint32_t value, int) { return value; }
uint32_t __reduce_max_sync(unsigned, uint32_t value) { return value; }
uint32_t __byte_perm(uint32_t x, uint32_t, uint32_t) { return x; }
void atomicMax(uint32_t*, uint32_t) {}

// PTX ISA, "cp.async.bulk.commit_group" and ".wait_group.read": a group may hold no store; of the groups that were
// committed, only the latest may still read their buffers after a wait.
std::vector<uint32_t> open_group;
std::deque<std::vector<uint32_t>> pending;
long stores = 0;
int faults = 0;
uint32_t buffer_bytes = 0;

void read_by(std::vector<uint32_t> const& group, uint32_t address) {
  for (uint32_t const buffer : group) {
    faults += buffer <= address && address < buffer + buffer_bytes;
  }
}

void write(uint32_t address) {
  read_by(open_group, address);
  for (auto const& group : pending) {
    read_by(group, address);
  }
}

}  // namespace

namespace tilewright::sm90 {

enum class Addend : int32_t { kF32, kF16, kBf16 };

struct Element {
  static constexpr int kBytes = 2;
  static constexpr Addend kAddend = Addend::kBf16;
  static uint32_t pack(float, float) { return 0; }
  static float to_float(uint16_t) { return 0.0f; }
  static void store(void*, int64_t, float) {}
};
inline float value_of(Addend, uint32_t) { return 0.0f; }
inline float load(Addend, void const*, int64_t) { return 0.0f; }

constexpr uint64_t kEvictFirst = 0;
inline bool elect_one() { return true; }
inline void named_barrier_sync(int, int) {}
inline void fence_async_proxy() {}
inline void barrier_wait(uint32_t, uint32_t) {}
inline void barrier_expect(uint32_t, uint32_t) {}
inline void prefetch_line(void const*) {}
inline void store_pair(float*, float, float) {}
template <class... Any>
void copy_box(Any...) {}
inline void load_words(uint32_t, uint32_t (&)[4]) {}
inline void store_short(uint32_t address, uint32_t) { write(address); }
template <bool kTransposed, class... Any>
void store_matrices(uint32_t address, Any...) {
  write(address);
}
inline void store_box(uint32_t source, CUtensorMap const*, int, int, int) {
  open_group.push_back(source);
  ++stores;
}
inline void commit_stores() {
  pending.push_back(open_group);
  open_group.clear();
}
template <int Pending>
void wait_for_stores() {
  while (pending.size() > Pending) {
    pending.pop_front();
  }
}

}  // namespace tilewright::sm90

#define __expf expf
#define __fdividef(x, y) ((x) / (y))

#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/gated_epilogue.hpp"

using namespace tilewright::sm90;

namespace {

unsigned state = 1;
unsigned draw(unsigned below) {
  state = state * 1664525u + 1013904223u;
  return (state >> 8) % below;
}

struct Rows {
  bool partial;

  bool every() const { return !partial; }
  bool none_left() const { return !partial; }
  RowFate operator()(int) const { return partial ? RowFate::kLeft : RowFate::kStored; }
  int column(int n) const { return n; }
};

// Tiles of a warpgroup, of which one in `often` has rows that are left. `kAny`: each subtile by itself.
template <class Store, int kRows, int kColumns, bool kAny>
void check(char const* what) {
  EpilogueParams params{};
  params.alpha = 1.0f, params.m = params.n = params.n_boxes = 1 << 20;
  CUtensorMap const map;
  buffer_bytes = Store::kBufferBytes;
  for (unsigned const often : {1u, 2u, 5u, 1000u}) {
    Store store(params, &map, 1024, 0);
    stores = faults = 0;
    int whole = 0;
    static float sums[kRows][kColumns / 2];
    for (int tile = 0; tile < 500; ++tile) {
      Rows const rows{draw(often) == 0 && often != 1000};
      whole += !rows.partial;
      if constexpr (kAny) {
        float values[Store::kColumnGroups * 4] = {};
        for (int subtile = 0; subtile < kRows * Store::kSubtiles; ++subtile) {
          store.store_any(values, 0, 0, 0, rows);
        }
      } else {
        store.store_rows(sums, 0, 0, 0, rows);
      }
    }
    if (faults != 0 || stores != long(whole) * kRows * Store::kSubtiles || !open_group.empty()) {
      std::printf("%s, one tile in %u: %d writes to buffers that are read, %ld stores of %d tiles\n", what, often,
                  faults, stores, whole);
    }
    store.drain();
    if (!pending.empty()) {
      std::printf("%s: %d groups at the end\n", what, int(pending.size()));
    }
  }
}

template <int kRows, int kColumns, bool kSwapped, int kBuffers, bool kTogether>
void check_both(char const* what) {
  using Store = Epilogue<Element, kRows, kColumns, kSwapped, Activation::kNone, kBuffers,
                         subtile_columns(kColumns, kSwapped), kTogether>;
  check<Store, kRows, kColumns, false>(what);
  check<Store, kRows, kColumns, true>(what);
}

template <int kRows, int kColumns>
void check_gated_rows(char const* what) {
  check<Epilogue<Element, kRows, kColumns, true, kSiluMul>, kRows, kColumns, false>(what);
}

// Tiles of a kernel with a gated activation, from registers or, with `kAny`, each subtile by itself.
template <int kRows, int kColumns, bool kSwapped, bool kAny>
void check_gated(char const* what) {
  using Store = Epilogue<Element, kRows, kColumns, kSwapped, kSiluMul>;
  EpilogueParams params{};
  params.alpha = 1.0f, params.m = params.n = params.n_boxes = 1 << 20;
  CUtensorMap const map;
  buffer_bytes = Store::kBufferBytes;
  Store store(params, &map, 1024, 0);
  stores = faults = 0;
  constexpr int kTiles = 500;
  static float sums[kRows][kColumns / 2];
  for (int tile = 0; tile < kTiles; ++tile) {
    float values[Store::kColumnGroups * 4] = {};
    if constexpr (!kAny) {
      store.store(sums, 0, 0, 0);
    }
    for (int subtile = 0; kAny && subtile < kRows * Store::kSubtiles; ++subtile) {
      store.store_any(values, {}, 0, 0, 0);
    }
  }
  store.drain();
  if (faults != 0 || stores != long(kTiles) * kRows * Store::kSubtiles || !pending.empty()) {
    std::printf("%s, gated: %d writes to buffers that are read, %ld stores, %d groups at the end\n", what, faults,
                stores, int(pending.size()));
  }
}

}  // namespace

int main() {
  check_gated<1, 256, false, false>("128x256");
  check_gated<2, 96, false, true>("256x96");
  check_gated<1, 48, false, false>("64x48");
  check_gated<3, 88, true, false>("192x88, swapped");
  check_gated<1, 120, true, true>("64x120, swapped");
  check_gated<1, 8, true, false>("64x8, swapped");
  check_both<1, 256, false, 2, true>("128x256, of 64 rows");
  check_both<2, 128, false, 2, true>("256x128");
  check_both<2, 96, false, 4, true>("256x96");
  check_both<1, 128, false, 2, true>("128x128, whose subtiles have a buffer each");
  check_both<1, 192, false, 2, true>("128x192");
  check_both<2, 128, false, 1, true>("256x128 with one buffer");
  check_both<1, 192, false, 3, false>("128x192, a warp by itself");
  check_both<1, 64, true, 2, true>("64x64, swapped");
  check_both<1, 128, true, 2, true>("64x128, swapped");
  check_gated_rows<1, 64>("64x64, gated, rows");
  check_gated_rows<2, 32>("128x32, gated, rows");
  check_gated_rows<1, 256>("64x256, gated, rows");
  check_gated_rows<1, 16>("64x16, gated, rows");
  check_gated_rows<1, 88>("64x88, gated, rows");
}
