// The PTX instructions that our sm_90a kernels are made of, a function for each: shared memory, mbarriers, bulk copies,
// named barriers, clusters, dependent launch. wgmma.hpp has the tensor cores'.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tilewright::sm90 {

// The 32-bit address of shared memory that PTX takes.
__device__ __forceinline__ uint32_t shared_address(void const* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Loads from and stores to shared memory, by its 32-bit address. The statements are volatile, so that the compiler
// moves no load above the wait for its stage.
__device__ __forceinline__ uint32_t load_byte(uint32_t address) {
  uint32_t value;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}

__device__ __forceinline__ uint32_t load_short(uint32_t address) {
  uint16_t value;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(value) : "r"(address) : "memory");
  return value;
}

__device__ __forceinline__ uint32_t load_word(uint32_t address) {
  uint32_t value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}

// `ld.volatile` is issued where it stands, even if its value is used much later: ptxas lets a plain load sink behind an
// arrival at an mbarrier. That the load is issued before an arrival does not mean that it has returned: see
// `zero_after`.
__device__ __forceinline__ float load_float(uint32_t address) {
  float value;
  asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}

__device__ __forceinline__ void load_words(uint32_t address, uint32_t (&words)[2]) {
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "r"(address) : "memory");
}

__device__ __forceinline__ void load_words(uint32_t address, uint32_t (&words)[4]) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}

// Returns zero, computed from `loaded`, a word that depends on loads from shared memory. A thread adds the zero to the
// address of the mbarrier at which it gives the loaded memory back, so that it arrives after the loads have returned.
//
// An arrival does not wait for loads that its warp has issued before. Loads wait in the load/store queue behind stores
// to global memory, whose first ones may take microseconds, and the arrival overtakes both. The producer then
// overwrites the memory, and the loads bring the next data (seen on an H200 in mqa_logits).
//
// The zero is blockIdx.z, because no kernel that calls this has a grid of three dimensions, and the compiler does not
// know that. The build looks for arrivals that overtake loads (compile/nvcc/sass_hazards.py).
__device__ __forceinline__ uint32_t zero_after(uint32_t loaded) { return loaded & blockIdx.z; }

__device__ __forceinline__ void store_short(uint32_t address, uint32_t value) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(static_cast<uint16_t>(value)) : "memory");
}

__device__ __forceinline__ void store_word(uint32_t address, uint32_t value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

__device__ __forceinline__ void store_words(uint32_t address, uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}

__device__ __forceinline__ void store_float(uint32_t address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

// Stores accumulators of wgmma to shared memory. They stay floats: converted to words, they would move to other
// registers, and ptxas would serialise the wgmmas (C7511).
__device__ __forceinline__ void store_floats(uint32_t address, float x, float y, float z, float w) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(x), "f"(y), "f"(z), "f"(w) : "memory");
}

__device__ __forceinline__ void store_pair_shared(uint32_t address, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}

// Stores accumulators to global memory.
__device__ __forceinline__ void store_pair(float* address, float x, float y) {
  asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(address), "f"(x), "f"(y) : "memory");
}

__device__ __forceinline__ void store_float4(float4* address, float x, float y, float z, float w) {
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(address), "f"(x), "f"(y), "f"(z), "f"(w) : "memory");
}

// Initialises an mbarrier in shared memory.
__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives at an mbarrier of any CTA of the cluster. It needs no `.release.cluster`, which made multicast kernels 1.6 to
// 2.5 times slower: wgmma alone reads what is released, and is done when this runs.
__device__ __forceinline__ void barrier_arrive_cluster(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives at an mbarrier, and announces `bytes` that TMA will write before the phase can end.
__device__ __forceinline__ void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Waits until the phase with this parity has ended.
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "TILEWRIGHT_WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra TILEWRIGHT_WAIT;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Makes what this thread wrote to shared memory visible to TMA and wgmma.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Makes initialised barriers visible to TMA.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Returns true in one thread of the warp. Called by all of its threads. ptxas knows that only one thread goes on.
__device__ __forceinline__ bool elect_one() {
  uint32_t elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xFFFFFFFF;\nselp.u32 %0, 1, 0, p;\n}\n" : "=r"(elected)::"memory");
  return elected != 0;
}

// How long L2 keeps the lines that a copy reads, in the encoding of createpolicy.
enum CachePolicy : uint64_t {
  kKeepNormal = 0x1000000000000000,
  kEvictFirst = 0x12F0000000000000,
};

// Copies a box of a tensor map to shared memory. Elements outside of the tensor arrive as zeros. The destination is
// `.shared::cta`: with `.shared::cluster`, ptxas for sm_120 adds a call and a stack for other CTAs' memory.
__device__ __forceinline__ void copy_box(uint32_t destination, CUtensorMap const* map, uint32_t barrier, int byte,
                                         int row, int matrix, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(byte), "r"(row), "r"(matrix), "l"(policy)
      : "memory");
}

// The same for a map of four dimensions.
__device__ __forceinline__ void copy_box(uint32_t destination, CUtensorMap const* map, uint32_t barrier, int byte,
                                         int x, int y, int z, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(byte), "r"(x), "r"(y), "r"(z), "l"(policy)
      : "memory");
}

// Multicasts a box of a map of three dimensions: to the same place in each CTA of the cluster whose bit is in `ctas`,
// with arrivals at the same barrier of each.
__device__ __forceinline__ void copy_box_to(uint16_t ctas, uint32_t destination, CUtensorMap const* map,
                                            uint32_t barrier, int byte, int row, int matrix, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
      " [%0], [%1, {%3, %4, %5}], [%2], %7, %6;" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(byte), "r"(row), "r"(matrix), "l"(policy), "h"(ctas)
      : "memory");
}

// Stores a box from shared memory by a tensor map. Elements outside of the tensor are not written.
__device__ __forceinline__ void store_box(uint32_t source, CUtensorMap const* map, int byte, int row, int matrix) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%1, {%2, %3, %4}], [%0];" ::"r"(source),
               "l"(map), "r"(byte), "r"(row), "r"(matrix)
               : "memory");
}

// Stores a box of F32, whose map counts columns; with kAdd, adds it to what the tensor holds.
template <bool kAdd>
__device__ __forceinline__ void store_float_box(uint32_t source, CUtensorMap const* map, int column, int row,
                                                int matrix) {
  if constexpr (kAdd) {
    asm volatile(
        "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%1, {%2, %3, %4}], [%0];" ::"r"(source),
        "l"(map), "r"(column), "r"(row), "r"(matrix)
        : "memory");
  } else {
    store_box(source, map, column, row, matrix);
  }
}

// Stores contiguous bytes from shared memory; sizes and addresses are multiples of 16.
__device__ __forceinline__ void store_bytes(void* destination, uint32_t source, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(destination), "r"(source), "r"(bytes)
               : "memory");
}

// Makes a bulk group of this thread's TMA stores since its last group.
__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until at most `Pending` of this thread's latest groups of stores still read their shared memory.
template <int Pending>
__device__ __forceinline__ void wait_for_stores() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

// Stores four (or two) 8x8 matrices of 16-bit elements to rows of 16 bytes. In each matrix's register, thread t holds
// row t/4, columns 2(t%4) and 2(t%4)+1. Thread t gives the address of row t%8 of matrix t/8.
template <bool kTransposed>
__device__ __forceinline__ void store_matrices(uint32_t row, uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  if constexpr (kTransposed) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(x), "r"(y),
                 "r"(z), "r"(w)
                 : "memory");
  } else {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(x), "r"(y), "r"(z),
                 "r"(w)
                 : "memory");
  }
}

template <bool kTransposed>
__device__ __forceinline__ void store_matrices(uint32_t row, uint32_t x, uint32_t y) {
  if constexpr (kTransposed) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(row), "r"(x), "r"(y)
                 : "memory");
  } else {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(row), "r"(x), "r"(y) : "memory");
  }
}

// The reverse of `store_matrices<false>`: loads four matrices.
__device__ __forceinline__ void load_matrices(uint32_t row, uint32_t (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(row)
               : "memory");
}

// Synchronises `threads` threads of the CTA, whole warps, at named barrier `id` (1 to 15; 0 is __syncthreads).
__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Arrives at a named barrier without waiting. `threads` counts the threads that arrive and those that wait.
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Sets the number of registers of each thread of this warpgroup: to fewer (keep_registers), or to more
// (take_registers), which waits until other warps have given up enough.
template <int Count>
__device__ __forceinline__ void keep_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}
template <int Count>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

// Copies contiguous bytes to shared memory; sizes and addresses are multiples of 16.
__device__ __forceinline__ void copy_bytes(uint32_t destination, void const* source, uint32_t bytes, uint32_t barrier,
                                           uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
          destination),
      "l"(source), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

// Prefetches a line of 128 bytes of global memory to L2.
__device__ __forceinline__ void prefetch_line(void const* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address) : "memory");
}

__device__ __forceinline__ void prefetch_map(CUtensorMap const* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Changes a tensor map in global memory: its address, and its row length and row stride, which are equal (bytes). A
// later kernel calls `acquire_map` before it copies by the map.
__device__ __forceinline__ void replace_map(CUtensorMap* map, void const* address, uint32_t row_bytes) {
  asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" ::"l"(map), "l"(address) : "memory");
  asm volatile("tensormap.replace.tile.global_dim.global.b1024.b32 [%0], 0, %1;" ::"l"(map), "r"(row_bytes) : "memory");
  asm volatile("tensormap.replace.tile.global_stride.global.b1024.b64 [%0], 0, %1;" ::"l"(map), "l"(uint64_t{row_bytes})
               : "memory");
  asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
}

// Makes this thread's TMA loads see what was written to a tensor map in global memory.
__device__ __forceinline__ void acquire_map(CUtensorMap const* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

// The two halves of a cluster barrier. The arrival is relaxed: it orders only the initialisation of mbarriers before it
// (see fence_barrier_init).
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Synchronises all threads of the cluster, and makes their writes to shared memory visible to each other.
__device__ __forceinline__ void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Number of CTAs in this cluster. `volatile`: it is read again each time, so that no register holds it.
__device__ __forceinline__ uint32_t cluster_size() {
  uint32_t size;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
}

// Maps a shared-memory address of this CTA to the same place in the CTA of rank `rank`.
__device__ __forceinline__ uint32_t cluster_address(uint32_t address, uint32_t rank) {
  uint32_t result;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(result) : "r"(address), "r"(rank));
  return result;
}

__device__ __forceinline__ float4 load_cluster(uint32_t address) {
  float4 value;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(address)
               : "memory");
  return value;
}

__device__ __forceinline__ float load_float_cluster(uint32_t address) {
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}

// Programmatic dependent launch. wait_for_previous_kernel: waits until the stream's previous kernel is done and its
// writes are visible. allow_next_kernel: lets the next kernel start, which waits for this one's end in turn.
__device__ __forceinline__ void wait_for_previous_kernel() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void allow_next_kernel() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

}  // namespace tilewright::sm90
