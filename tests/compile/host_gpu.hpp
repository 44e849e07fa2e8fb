// What a kernel of TMA and mbarriers asks of a GPU, on the host: shared memory, barriers, tensor maps, copies. Threads
// are those of host_threads.hpp. A copy is done where it is asked for, or late, in any order: what a kernel does must
// not hang on it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <type_traits>
#include <vector>

#define __host__
#include "host_threads.hpp"
#ifndef HOST_PRODUCTS
#include "host_wgmma.hpp"
#endif

// cuda.h
using cuuint32_t = uint32_t;
using cuuint64_t = uint64_t;
enum CUresult { CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE };
enum CUtensorMapDataType {
  CU_TENSOR_MAP_DATA_TYPE_UINT8,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
  CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
};
enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE };
enum CUtensorMapSwizzle {
  CU_TENSOR_MAP_SWIZZLE_NONE = 16,
  CU_TENSOR_MAP_SWIZZLE_32B = 32,
  CU_TENSOR_MAP_SWIZZLE_64B = 64,
  CU_TENSOR_MAP_SWIZZLE_128B = 128
};
enum CUtensorMapL2promotion { CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B };
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE };
struct CUtensorMap {
  uint8_t const* address;
  int rank, bytes, swizzle;
  int64_t extents[5], strides[5], box[5];  // strides in bytes
};

// What the driver refuses, it refuses.
inline CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                       cuuint64_t const* extents, cuuint64_t const* strides, cuuint32_t const* box,
                                       cuuint32_t const*, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                       CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  int const bytes = type == CU_TENSOR_MAP_DATA_TYPE_UINT8 ? 1 : 4;
  *map = {static_cast<uint8_t const*>(address), int(rank), bytes, int(swizzle), {}, {bytes}, {}};
  bool legal = reinterpret_cast<uintptr_t>(address) % 16 == 0 && box[0] * bytes % 16 == 0;
  legal = legal && (swizzle == CU_TENSOR_MAP_SWIZZLE_NONE || int(box[0] * bytes) <= int(swizzle));
  for (cuuint32_t i = 0; i < rank; ++i) {
    map->extents[i] = int64_t(extents[i]), map->box[i] = box[i];
    legal = legal && extents[i] > 0 && box[i] > 0 && box[i] <= 256;
    if (i > 0) {
      map->strides[i] = int64_t(strides[i - 1]);
      legal = legal && strides[i - 1] % 16 == 0;
    }
  }
  return legal ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// cuda_runtime_api.h, launch.hpp, adapter.hpp
enum cudaError_t { cudaSuccess, cudaErrorInvalidValue, cudaErrorNotSupported };
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned along_x = 1, unsigned along_y = 1, unsigned along_z = 1) : x(along_x), y(along_y), z(along_z) {}
};
namespace tilewright {
struct LaunchShape {
  dim3 grid, block, cluster, preferred;
  int smem_bytes;
  bool pdl, spread;
};
template <class Function>
Function driver_function(char const*) {
  if constexpr (std::is_same_v<Function, decltype(&cuTensorMapEncodeTiled)>) {
    return &cuTensorMapEncodeTiled;
  } else {
    return nullptr;
  }
}
#ifndef HOST_PRODUCTS  // which go with the real adapter.hpp
template <class Traits, class Host>
struct LaunchedOnce {};
#endif
}  // namespace tilewright

namespace host {

constexpr uint32_t kSharedAt = 4096;
alignas(1024) uint8_t memory[1 << 19];  // shared memory, from kSharedAt on
uint32_t shared_end = 0;
int faults = 0;
long idle = 0;
bool late = false;  // copies
unsigned chance = 1;

unsigned random(unsigned below) {
  chance = chance * 1664525u + 1013904223u;
  return (chance >> 8) % below;
}

void fault(char const* what, long a = 0, long b = 0) {
  if (++faults < 10) {
    std::printf("%s: %ld %ld\n", what, a, b);
  }
}

uint8_t* at(uint32_t address, uint32_t bytes) {
  if (address < kSharedAt || address + bytes > shared_end || address % bytes != 0) {
    fault("shared memory", address, bytes);
    std::exit(1);
  }
  return memory + address;
}

// PTX ISA, "mbarrier": a phase ends with its last arrival, once as many bytes have come as were announced.
struct Barrier {
  int count, pending, bytes = 0;
  uint32_t phase = 0;

  void look() {
    if (pending == 0 && bytes == 0) {
      pending = count, phase ^= 1;
    }
  }
  void arrive() {
    if (pending == 0) {
      fault("one arrival too many");
    }
    idle = 0, --pending;
    look();
  }
};
std::map<uint32_t, Barrier> barriers;

struct Copy {
  uint32_t to, barrier;
  CUtensorMap const* map;
  int64_t from[5];

  void run() const {
    int64_t total = map->bytes;
    for (int i = 0; i < map->rank; ++i) {
      total *= map->box[i];
    }
    for (int64_t byte = 0; byte < total; ++byte) {
      int64_t left = byte / map->bytes, where = byte % map->bytes;
      bool inside = true;
      for (int i = 0; i < map->rank; ++i) {
        int64_t const place = from[i] + left % map->box[i];
        inside = inside && place >= 0 && place < map->extents[i];
        where += place * map->strides[i], left /= map->box[i];
      }
      // CUDA driver API, "cuTensorMapEncodeTiled": chunks of 16 bytes of 8 rows are exchanged, by the address.
      uint32_t const address = to + uint32_t(byte);
      uint32_t const swizzled = address ^ (address >> 3 & uint32_t(map->swizzle - 16));
      *at(swizzled, 1) = inside ? map->address[where] : 0;
    }
    barriers.at(barrier).bytes -= int(total);
    barriers.at(barrier).look();
    idle = 0;
  }
};
std::vector<Copy> copies;

void copy(Copy const& one) {
  if (one.to % 128 != 0) {
    fault("where a copy goes", one.to);
  }
  late ? copies.push_back(one) : one.run();
}

// What goes on beside the threads, some of it each time that it is called; whether there was any.
std::function<bool()> beside = [] { return false; };

void start(int shared_bytes) {
  std::memset(memory, 0xFF, sizeof memory);
  shared_end = kSharedAt + uint32_t(shared_bytes);
  barriers.clear();
  copies.clear();
}

}  // namespace host

[[noreturn]] inline void __trap() {
  host::fault("a trap");
  std::exit(1);
}
inline float __uint_as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline float __shfl_xor_sync(unsigned, float value, int mask) {
  int bits;
  std::memcpy(&bits, &value, 4);
  bits = int(gather(bits)[(threadIdx.x % 32) ^ mask]);
  std::memcpy(&value, &bits, 4);
  return value;
}

namespace tilewright::sm90 {

inline uint32_t shared_address(void const* pointer) {
  return uint32_t(static_cast<uint8_t const*>(pointer) - host::memory);
}
inline uint32_t load_word(uint32_t address) {
  uint32_t word;
  std::memcpy(&word, host::at(address, 4), 4);
  return word;
}
inline float load_float(uint32_t address) { return __uint_as_float(load_word(address)); }
template <int Count>
void load_words(uint32_t address, uint32_t (&words)[Count]) {
  std::memcpy(words, host::at(address, Count * 4), sizeof words);
}
inline void store_word(uint32_t address, uint32_t word) { std::memcpy(host::at(address, 4), &word, 4); }
inline void store_words(uint32_t address, uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  uint32_t const words[4] = {x, y, z, w};
  std::memcpy(host::at(address, 16), words, 16);
}
inline void store_float(uint32_t address, float value) { std::memcpy(host::at(address, 4), &value, 4); }
void load_matrices(uint32_t, uint32_t (&)[4]);

inline void barrier_init(uint32_t barrier, uint32_t arrivals) {
  host::at(barrier, 8);
  host::barriers[barrier] = {int(arrivals), int(arrivals)};
}
inline void barrier_arrive(uint32_t barrier) { host::barriers.at(barrier).arrive(); }
inline void barrier_expect(uint32_t barrier, uint32_t bytes) {
  host::barriers.at(barrier).bytes += int(bytes);
  host::barriers.at(barrier).arrive();
}
inline void barrier_wait(uint32_t barrier, uint32_t parity) {
  while (host::barriers.at(barrier).phase == parity) {
    if (!host::copies.empty() && host::random(64) == 0) {
      size_t const which = host::random(unsigned(host::copies.size()));
      host::Copy const one = host::copies[which];
      host::copies.erase(host::copies.begin() + long(which));
      one.run();
    } else if (host::random(1024) == 0 && host::beside()) {
      host::idle = 0;
    } else if (++host::idle > 1'000'000) {
      host::fault("all stand still", threadIdx.x, barrier);
      std::exit(1);
    }
    yield();
  }
}
inline void fence_async_proxy() {}
inline void fence_barrier_init() {}
inline bool elect_one() { return threadIdx.x % 32 == 0; }

enum CachePolicy : uint64_t { kKeepNormal = 0x1000000000000000, kEvictFirst = 0x12F0000000000000 };
inline void copy_box(uint32_t to, CUtensorMap const* map, uint32_t barrier, int a, int b, int c, uint64_t) {
  host::copy({to, barrier, map, {a, b, c}});
}
inline void copy_box(uint32_t to, CUtensorMap const* map, uint32_t barrier, int a, int b, int c, int d, uint64_t) {
  host::copy({to, barrier, map, {a, b, c, d}});
}
inline void prefetch_map(CUtensorMap const*) {}
template <int>
void keep_registers() {}
template <int>
void take_registers() {}
inline void wait_for_previous_kernel() {}
inline void allow_next_kernel() {}

#ifndef HOST_PRODUCTS  // host_products.hpp has all elements
// elements.hpp
struct F32 {
  using Stored = float;
  static void store(void* array, int64_t i, float value) { static_cast<float*>(array)[i] = value; }
};
#endif

}  // namespace tilewright::sm90
