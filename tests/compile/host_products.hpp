// What a kernel that multiplies by mma.sync and stores by TMA asks of a GPU besides host_gpu.hpp, and what its host
// code asks of the driver: elements, 8x8 matrices, mma.sync by its definition, named barriers, bulk stores, launches.
// In place of cuda.h, cuda_runtime_api.h, launch.hpp, sm90/ptx.hpp, sm90/elements.hpp, sm120/mma.hpp, and of the
// functions of sm90/subtile.hpp that load matrices.
#pragma once

#define HOST_PRODUCTS
#include <deque>

#include "host_gpu.hpp"

// cuda_runtime_api.h, and what nvcc declares.
struct float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline Index blockDim;
inline float4 __ldcg(float4 const* from) { return *from; }
inline float __expf(float x) { return std::exp(x); }
inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline uint32_t __shfl_xor_sync(unsigned, uint32_t value, int mask) {
  return uint32_t(gather(value)[(threadIdx.x % 32) ^ mask]);
}
template <class T>
T __ldg(T const* address) {
  return *address;
}
inline bool __any_sync(unsigned, bool value) { return __ballot_sync(~0u, value) != 0; }
inline uint32_t __reduce_min_sync(unsigned, uint32_t value) {
  auto const all = gather(value);
  return uint32_t(*std::min_element(all.begin(), all.end()));
}
inline uint32_t __reduce_max_sync(unsigned, uint32_t value) {
  auto const all = gather(value);
  return uint32_t(*std::max_element(all.begin(), all.end()));
}
// Byte i of the result is the byte of y:x that nibble i of the selector says.
inline uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t selector) {
  uint64_t const bytes = uint64_t(y) << 32 | x;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    result |= uint32_t(bytes >> (selector >> i * 4 & 7) * 8 & 255) << i * 8;
  }
  return result;
}
inline void atomicMax(uint32_t* at, uint32_t value) { *at = std::max(*at, value); }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
using cudaStream_t = void*;
using CUfunction = void*;
constexpr cudaError_t cudaErrorInvalidClusterSize = cudaErrorNotSupported;
constexpr cudaError_t cudaErrorInvalidConfiguration = cudaErrorNotSupported;

namespace host {

// A launch runs all thread blocks, one after the other: what the entry of a kernel points to.
using Entry = void (*)(void const* params, tilewright::LaunchShape const& shape);
int at_once = 3;  // thread blocks of a grid of clusters, so that each computes several tiles

}  // namespace host

// What launches without clusters (any_kernel.hpp) take from cuda.h and launch.hpp. Kernels of mma.sync have none.
enum CUlaunchAttributeID { CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION };
struct CUlaunchAttribute {
  CUlaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
  } value;
};
struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, numAttrs;
  cudaStream_t hStream;
  CUlaunchAttribute* attrs;
};
inline int cuLaunchKernelEx(CUlaunchConfig const*, CUfunction, void**, void**) { std::abort(); }

// launch.hpp
namespace tilewright {

struct ContextId {
  friend bool operator==(ContextId const&, ContextId const&) { return true; }
};
struct Context {
  ContextId current;
};
struct Occupancy {
  static Occupancy of(Context const&, void const*, dim3 const&) { std::abort(); }
};
inline int spread_bytes(LaunchShape const&, Occupancy const&) { std::abort(); }
struct KernelInContext {
  ContextId context;
  CUfunction function;
  KernelInContext const* next;
};
inline int32_t answer(int32_t status) { return status; }
inline cudaError_t current_context(Context&, cudaStream_t) { return cudaSuccess; }
inline cudaError_t allow_now(Context const&, void const*, LaunchShape const&, CUfunction&) { return cudaSuccess; }
template <class Kernel>
cudaError_t allow(Context const&, void const*, LaunchShape const&, CUfunction&) {
  return cudaSuccess;
}
inline cudaError_t clusters_at_once(Context const&, void const*, LaunchShape const&, int, int& at_once) {
  at_once = host::at_once;
  return cudaSuccess;
}
template <class Kernel>
cudaError_t launch(Context const&, void const* entry, void* params, LaunchShape const& shape, cudaStream_t) {
  reinterpret_cast<host::Entry>(const_cast<void*>(entry))(params, shape);
  return cudaSuccess;
}

}  // namespace tilewright

namespace host {

// PTX ISA, "bar": a barrier is complete when as many threads have come as its users say, whether they wait or not.
struct NamedBarrier {
  int arrived = 0;
  long meetings = 0;

  void arrive(int threads) {
    if (++arrived == threads) {
      arrived = 0, ++meetings;
    }
  }
};
NamedBarrier named_barriers[16];

// PTX ISA, "cp.async.bulk.commit_group": stores of a thread are read from shared memory at the latest when it waits for
// their group. So late are they read here.
struct Store {
  uint32_t from;
  CUtensorMap const* map;
  int64_t to[3];
  bool adds = false;  // floats to what lies there

  void run() const {
    int64_t const total = map->box[0] * map->box[1] * map->box[2] * map->bytes;
    for (int64_t byte = 0; byte < total; byte += adds ? 4 : 1) {
      int64_t left = byte / map->bytes, where = byte % map->bytes;
      bool inside = true;
      for (int i = 0; i < map->rank; ++i) {
        int64_t const place = to[i] + left % map->box[i];
        inside = inside && place >= 0 && place < map->extents[i];
        where += place * map->strides[i], left /= map->box[i];
      }
      uint32_t const address = from + uint32_t(byte);
      uint8_t* const memory = const_cast<uint8_t*>(map->address) + where;
      uint32_t const place = address ^ (address >> 3 & uint32_t(map->swizzle - 16));
      if (inside && adds) {
        *reinterpret_cast<float*>(memory) += *reinterpret_cast<float*>(at(place, 4));
      } else if (inside) {
        *memory = *at(place, 1);
      }
    }
  }
};
struct Stores {
  std::vector<Store> open;
  std::deque<std::vector<Store>> groups;
};
Stores stores[1024];  // of a thread each

void no_stores_left() {
  for (Stores& thread : stores) {
    if (!thread.open.empty() || !thread.groups.empty()) {
      fault("stores that no thread waits for", long(thread.groups.size()));
    }
    thread = {};
  }
}

// Rounds to nearest even, to `Exponent` bits and `Mantissa` bits; too large is `largest`.
template <int Exponent, int Mantissa>
uint32_t encode(float value, uint32_t largest) {
  constexpr int kBias = (1 << (Exponent - 1)) - 1;
  if (std::isnan(value)) {
    return (1u << (Exponent + Mantissa)) - 1;
  }
  uint32_t const sign = std::signbit(value) ? 1u << (Exponent + Mantissa) : 0;
  int power;
  std::frexp(std::fabs(value), &power);
  power = std::max(power - 1, 1 - kBias);
  double const units = std::nearbyint(std::ldexp(std::fabs(double(value)), Mantissa - power));
  double const bits = units + std::ldexp(double(power + kBias - 1), Mantissa);
  return sign | uint32_t(std::min(value == 0.0f ? 0.0 : bits, double(largest)));
}

}  // namespace host

namespace tilewright::sm90 {

// ptx.hpp
inline uint32_t zero_after(uint32_t) { return 0; }
inline void store_short(uint32_t address, uint32_t value) {
  uint16_t const half = uint16_t(value);
  std::memcpy(host::at(address, 2), &half, 2);
}
inline void store_pair(float* to, float x, float y) { to[0] = x, to[1] = y; }
inline void store_float4(float4* to, float x, float y, float z, float w) { *to = {x, y, z, w}; }
inline void prefetch_line(void const*) {}
inline void named_barrier_arrive(int id, int threads) { host::idle = 0, host::named_barriers[id].arrive(threads); }
inline void named_barrier_sync(int id, int threads) {
  host::NamedBarrier& barrier = host::named_barriers[id];
  long const before = barrier.meetings;
  named_barrier_arrive(id, threads);
  while (barrier.meetings == before) {
    if (++host::idle > 1'000'000) {
      host::fault("all stand still at a named barrier", threadIdx.x, id);
      std::exit(1);
    }
    yield();
  }
}
inline uint32_t cluster_rank() { return 0; }
inline void cluster_arrive() { host::fault("a cluster of one waits for a cluster"); }
inline void cluster_wait() { host::fault("a cluster of one waits for a cluster"); }
inline void cluster_barrier() { cluster_wait(); }
inline void barrier_arrive_cluster(uint32_t barrier) { barrier_arrive(barrier); }
inline uint32_t cluster_address(uint32_t address, uint32_t) { return address; }
inline uint32_t cluster_size() { return 1; }
template <class... Any>
void copy_box_to(Any...) {
  host::fault("a cluster of one multicasts");
}
inline void store_box(uint32_t from, CUtensorMap const* map, int byte, int row, int matrix) {
  host::stores[threadIdx.x].open.push_back({from, map, {byte, row, matrix}});
}
template <bool kAdd>
void store_float_box(uint32_t from, CUtensorMap const* map, int column, int row, int matrix) {
  host::stores[threadIdx.x].open.push_back({from, map, {column, row, matrix}, kAdd});
}
inline void replace_map(CUtensorMap* map, void const* address, uint32_t row_bytes) {
  map->address = static_cast<uint8_t const*>(address);
  map->extents[0] = map->strides[1] = row_bytes;
}
inline void acquire_map(CUtensorMap const*) {}
inline void store_floats(uint32_t, float, float, float, float) { host::fault("sums in shared memory"); }
inline float4 load_cluster(uint32_t) { return host::fault("sums of another thread block"), float4{}; }
inline void store_pair_shared(uint32_t address, float x, float y) {
  store_float(address, x), store_float(address + 4, y);
}
inline void commit_stores() {
  host::Stores& thread = host::stores[threadIdx.x];
  thread.groups.push_back(std::move(thread.open));
  thread.open.clear();
}
template <int Pending>
void wait_for_stores() {
  auto& groups = host::stores[threadIdx.x].groups;
  while (int(groups.size()) > Pending) {
    for (host::Store const& store : groups.front()) {
      store.run();
    }
    groups.pop_front();
  }
}

// PTX ISA, "ldmatrix", "stmatrix": lane 8i + r gives the address of row r of matrix i. Lane l has elements 2(l % 4) and
// 2(l % 4) + 1 of row l / 4 of each; transposed, of column l / 4.
template <bool kTransposed, class Move>
void move_matrices(uint32_t row, int count, Move const& move) {
  auto const rows = gather(row);
  int const lane = threadIdx.x % 32;
  for (int matrix = 0; matrix < count; ++matrix) {
    for (int element = 0; element < 2; ++element) {
      int const along = lane % 4 * 2 + element, across = lane / 4;
      uint32_t const start = uint32_t(rows[matrix * 8 + (kTransposed ? along : across)]);
      host::at(start, 16);
      move(matrix, element, host::at(start + (kTransposed ? across : along) * 2, 2));
    }
  }
}
template <bool kTransposed, int Count>
void load_matrices_of(uint32_t row, uint32_t (&words)[Count]) {
  move_matrices<kTransposed>(row, Count, [&](int matrix, int element, uint8_t const* from) {
    uint16_t half;
    std::memcpy(&half, from, 2);
    words[matrix] = element == 0 ? half : words[matrix] | uint32_t(half) << 16;
  });
}
template <bool kTransposed, int Count>
void store_matrices_of(uint32_t row, uint32_t const (&words)[Count]) {
  move_matrices<kTransposed>(row, Count, [&](int matrix, int element, uint8_t* to) {
    uint16_t const half = uint16_t(words[matrix] >> element * 16);
    std::memcpy(to, &half, 2);
  });
}
template <bool kTransposed>
void load_matrices(uint32_t row, uint32_t& x, uint32_t& y, uint32_t& z, uint32_t& w) {
  uint32_t words[4];
  load_matrices_of<kTransposed>(row, words);
  x = words[0], y = words[1], z = words[2], w = words[3];
}
template <bool kTransposed>
void load_matrices(uint32_t row, uint32_t& x, uint32_t& y) {
  uint32_t words[2];
  load_matrices_of<kTransposed>(row, words);
  x = words[0], y = words[1];
}
template <bool kTransposed>
void store_matrices(uint32_t row, uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  store_matrices_of<kTransposed>(row, {x, y, z, w});
}
template <bool kTransposed>
void store_matrices(uint32_t row, uint32_t x, uint32_t y) {
  store_matrices_of<kTransposed>(row, {x, y});
}

// elements.hpp
enum class Addend : int32_t { kF32, kF16, kBf16 };

template <class Element, class Stored_, Addend kAddend_>
struct HostElement {
  static constexpr int kBytes = sizeof(Stored_);
  static constexpr Addend kAddend = kAddend_;
  using Stored = Stored_;

  static uint32_t pack(float low, float high) { return Element::bits(low) | Element::bits(high) << kBytes * 8 % 32; }
  static void store(void* array, int64_t i, float value) {
    static_cast<Stored*>(array)[i] = static_cast<Stored>(Element::bits(value));
  }
};
struct Bf16 : HostElement<Bf16, uint16_t, Addend::kBf16> {
  static uint32_t bits(float value) { return host::encode<8, 7>(value, 0x7F80); }
  static float to_float(uint16_t bits) { return __uint_as_float(uint32_t{bits} << 16); }
};
struct F16 : HostElement<F16, uint16_t, Addend::kF16> {
  static uint32_t bits(float value) { return host::encode<5, 10>(value, 0x7C00); }
  static float to_float(uint16_t bits) {
    int const exponent = bits >> 10 & 31, mantissa = bits & 1023;
    float const size =
        exponent == 0 ? std::ldexp(float(mantissa), -24) : std::ldexp(float(1024 + mantissa), exponent - 25);
    return bits >> 15 ? -size : size;
  }
};
struct E4m3 : HostElement<E4m3, uint8_t, Addend::kBf16> {
  static uint32_t bits(float value) { return host::encode<4, 3>(value, 0x7E); }
};
struct E5m2 : HostElement<E5m2, uint8_t, Addend::kBf16> {
  static uint32_t bits(float value) { return host::encode<5, 2>(value, 0x7B); }
};
struct F32 : HostElement<F32, float, Addend::kF32> {
  static void store(void* array, int64_t i, float value) { static_cast<float*>(array)[i] = value; }
};
inline float value_of(Addend type, uint32_t bits) {
  return type == Addend::kF32    ? __uint_as_float(bits)
         : type == Addend::kBf16 ? Bf16::to_float(uint16_t(bits))
                                 : F16::to_float(uint16_t(bits));
}
inline float load(Addend type, void const* array, int64_t i) {
  return value_of(
      type, type == Addend::kF32 ? static_cast<uint32_t const*>(array)[i] : static_cast<uint16_t const*>(array)[i]);
}

}  // namespace tilewright::sm90

#define memcpy std::memcpy
#include "tilewright/sm120/mma_definition.hpp"
#undef memcpy

namespace tilewright::sm120 {

// The values of a code from a table. To decode each factor of each product would take two thirds of the time.
template <class Code>
struct Decoded {
  static constexpr int kBits = Code::kBits;

  static double value(uint32_t bits) { return values.of[bits & ((1u << kBits) - 1)]; }

 private:
  struct Values {
    double of[1 << kBits];

    Values() {
      for (uint32_t bits = 0; bits < 1u << kBits; ++bits) of[bits] = Code::value(bits);
    }
  };
  inline static Values const values;
};

// mma.hpp. A warp's lanes bring their registers, and each computes its own four sums.
struct Registers {
  uint32_t a[4], b[2];
};
inline Registers registers[32][32];

template <class Derived, class A, class B>
struct HostMma {
  using CodeA = Decoded<Code<A>>;
  using CodeB = Decoded<Code<B>>;
  using Sum = float;
  using Exact = double;
  static constexpr int kM = 16, kN = 8, kK = 8 * 32 / CodeA::kBits, kBlocks = 0;

  struct Lanes {
    Registers const (&of)[32];

    uint32_t a(int lane, int word) const { return of[lane].a[word]; }
    uint32_t b(int lane, int word) const { return of[lane].b[word]; }
  };

  static void mma(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2]) {
    int const warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    std::copy(a, a + 4, registers[warp][lane].a);
    std::copy(b, b + 2, registers[warp][lane].b);
    meet(warps[warp]);
    multiply_in_software<Derived>(d, lane, Lanes{registers[warp]});
    meet(warps[warp]);
  }
};
// With scale factors.
template <class Derived, class CodeA_, class CodeB_, class CodeScale_, int kBlocks_>
struct HostScaledMma {
  using CodeA = Decoded<CodeA_>;
  using CodeB = Decoded<CodeB_>;
  using CodeScale = Decoded<CodeScale_>;
  using Sum = float;
  using Exact = double;
  static constexpr int kM = 16, kN = 8, kK = 8 * 32 / CodeA::kBits, kBlocks = kBlocks_;

  struct Lanes {
    Registers const (&of)[32];
    uint32_t const (&words)[32][2];

    uint32_t a(int lane, int word) const { return of[lane].a[word]; }
    uint32_t b(int lane, int word) const { return of[lane].b[word]; }
    uint32_t a_scales(int lane) const { return words[lane][0]; }
    uint32_t b_scales(int lane) const { return words[lane][1]; }
  };

  template <int kByteA, int kByteB, int kThreadA, int kThreadB>
  static void mma(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2], uint32_t a_scales, uint32_t b_scales) {
    static_assert(kByteA < 4 && kByteB < 4 && kThreadA < 2 && kThreadB < 4);
    static_assert(kByteA % kBlocks == 0 && kByteB % kBlocks == 0);
    static uint32_t words[32][32][2];
    int const warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    std::copy(a, a + 4, registers[warp][lane].a);
    std::copy(b, b + 2, registers[warp][lane].b);
    words[warp][lane][0] = a_scales, words[warp][lane][1] = b_scales;
    meet(warps[warp]);
    multiply_in_software<Derived>(d, lane, Lanes{registers[warp], words[warp]}, {kByteA, kByteB, kThreadA, kThreadB});
    meet(warps[warp]);
  }
};
template <class A, class B>
struct MmaMxf8 : HostScaledMma<MmaMxf8<A, B>, ByteCode<A>, ByteCode<B>, Code<Ue8m0>, 1> {};
struct MmaMxf4 : HostScaledMma<MmaMxf4, Code<E2m1>, Code<E2m1>, Code<Ue8m0>, 2> {};
struct MmaNvf4 : HostScaledMma<MmaNvf4, Code<E2m1>, Code<E2m1>, Code<Ue4m3>, 4> {};
struct MmaBf16 : HostMma<MmaBf16, sm90::Bf16, sm90::Bf16> {};
struct MmaF16 : HostMma<MmaF16, sm90::F16, sm90::F16> {};
template <class A, class B>
struct MmaFp8 : HostMma<MmaFp8<A, B>, A, B> {};

}  // namespace tilewright::sm120

namespace host {

// Runs all thread blocks of a kernel, one after the other, and looks at what each leaves behind.
template <class Kernel>
void run_blocks(void const* params, tilewright::LaunchShape const& shape) {
  gridDim.x = int(shape.grid.x);
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
    start(Kernel::kSharedBytes);
    std::fill(named_barriers, named_barriers + 16, NamedBarrier{});
    disorder = random(1 << 20) + 1;
    run(Kernel::kThreads, [&] {
      Kernel{}(*static_cast<typename Kernel::Params const*>(params), reinterpret_cast<char*>(memory + kSharedAt));
    });
    no_stores_left();
    for (auto const& [address, barrier] : barriers) {
      if (barrier.pending != barrier.count && barrier.pending != 0) {
        fault("a barrier in the middle of a phase", address, barrier.pending);
      }
    }
    if (!copies.empty()) {
      fault("nobody waits for a copy");
    }
  }
}

// The same for kernels that add up sums in memory, which have no dynamic shared memory.
template <class Kernel, class Params>
void run_combining(void const* params, tilewright::LaunchShape const& shape) {
  blockDim.x = int(shape.block.x);
  for (blockIdx.x = 0; blockIdx.x < int(shape.grid.x); ++blockIdx.x) {
    run(blockDim.x, [&] { Kernel{}(*static_cast<Params const*>(params)); });
  }
}

template <class Kernel>
void const* entry_of() {
  Entry const entry = &run_blocks<Kernel>;
  return reinterpret_cast<void const*>(entry);
}
template <class Kernel, class Params>
void const* combining_entry_of() {
  Entry const entry = &run_combining<Kernel, Params>;
  return reinterpret_cast<void const*>(entry);
}

// A matrix of small whole numbers, with rows of `stride` elements, which hold more than `columns`.
template <class Element>
struct Matrix {
  int rows, columns;
  int64_t stride, batch_stride;
  std::vector<float> values;
  std::vector<typename Element::Stored> stored;

  Matrix(int batch, int high, int wide, int gap, int most)
      : rows(high), columns(wide), stride(wide + gap), batch_stride(stride * high) {
    for (int64_t i = 0; i < batch_stride * batch + 64; ++i) {
      bool const inside = i < batch_stride * batch && i % stride < columns;
      values.push_back(inside ? float(int(random(2 * most + 1)) - most) : NAN);
      stored.emplace_back();
      Element::store(stored.data(), i, values.back());
    }
  }
  // Memory that begins at a multiple of 16 bytes, and `shift` elements.
  typename Element::Stored* data(int shift = 0) {
    copy.assign(stored.size() * sizeof stored[0] + 64, 0);
    auto const at = reinterpret_cast<uintptr_t>(copy.data());
    auto* const to = reinterpret_cast<typename Element::Stored*>(copy.data() + (16 - at % 16) % 16) + shift;
    std::copy(stored.begin(), stored.end(), to);
    return to;
  }
  float at(int matrix, int row, int column) const { return values[matrix * batch_stride + row * stride + column]; }

 private:
  std::vector<uint8_t> copy;
};

// A kernel, for the host's code.
template <class Kernel_>
struct Traits {
  using Kernel = Kernel_;
  static constexpr bool kPdl = true;

  static void const* entry() { return host::entry_of<Kernel>(); }
};

struct Case {
  char const* name;
  void (*run)();
};

// Runs a program of cases. Words: none, for the names of all cases; or a case, and when copies are done: early (where
// they are asked for) or late.
template <size_t N>
int run_cases(Case const (&cases)[N], int count, char** words) {
  late = count > 2 && std::strcmp(words[2], "late") == 0;
  bool known = count == 1;
  for (Case const& test : cases) {
    if (count == 1) {
      std::printf("%s\n", test.name);
    } else if (std::strcmp(words[1], test.name) == 0) {
      known = true, test.run();
    }
  }
  return faults != 0 || !known;
}

}  // namespace host
