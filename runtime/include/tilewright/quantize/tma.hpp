// The producer-consumer kernel: the producer warp keeps a ring of stages in shared memory full by bulk copies, and the
// consumer warps quantise from there. Data in flight takes no registers.
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"
#include "tilewright/quantize/rows.hpp"

namespace tilewright::quantize {

// `kConsumers` threads quantise. A stage holds, for each of their warps, a stretch of four rows.
template <class Format, class Type, int kConsumers, int kStages, bool kPdl>
struct TmaKernel {
  using Args = tilewright_quantize_args;
  using Params = quantize::Params;
  using Source = Plain<Type>;
  static constexpr int kWarps = kConsumers / 32;
  static constexpr int kThreads = kConsumers + 32;
  static constexpr int kCount = Elements<Type>::kCount;
  static constexpr int kDataBytes = kCount * Format::kBits / 8;
  static constexpr int kThreadBytes = kCount * Elements<Type>::kBytes;
  static constexpr int kRowBytes = 32 * kThreadBytes;
  static constexpr int kSlotBytes = kRows * kRowBytes;  // of a warp
  static constexpr int kStageBytes = kWarps * kSlotBytes;
  static constexpr int kBarriersAt = kStages * kStageBytes;
  static constexpr int kTableAt = (kBarriersAt + kStages * (kWarps + 1) * 8 + 15) / 16 * 16;
  static constexpr int kSharedBytes = kTableAt + Format::kSharedBytes;
  static constexpr __host__ __device__ int min_of(int x, int y) { return x < y ? x : y; }
  static constexpr int kMinBlocks = min_of(228 * 1024 / (kSharedBytes + 1024), 1024 / kConsumers);
  static_assert(kWarps % 8 == 0, "the producer's lanes take a row each");
  static_assert(kMinBlocks >= 1, "the stages exceed the shared memory");

  static bool can_implement(Args const& args) {
    return takes(args, Elements<Type>::kBytes * 8, Format::kBits, kDataBytes, Format::kByteScales);
  }

  static cudaError_t make_params(Args const& args, Params& params, LaunchShape& shape) {
    set_params(args, params, Elements<Type>::kBytes * 8, Format::kBits, Format::kBlock, Format::kByteScales, kWarps,
               32 * kCount);
    lengthen_tasks(args, params);
    shape.grid = dim3(set_grid(args, params));
    return cudaSuccess;
  }

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    namespace ptx = sm90;
    uint32_t const shared = ptx::shared_address(memory);
    int const warp = warp_number(), lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        for (int i = 0; i < kWarps; ++i) {
          ptx::barrier_init(full(shared, stage, i), 1);
        }
        ptx::barrier_init(empty(shared, stage), kConsumers);
      }
      ptx::fence_barrier_init();
    }
    __syncthreads();
    if constexpr (kPdl) {
      ptx::wait_for_previous_kernel();
      ptx::allow_next_kernel();
    }
    if (warp == kWarps) {
      load_stages(params, shared, lane);
    } else {
      run_with_scales<Format>(*this, params, memory, memory + kTableAt);
    }
  }

  // A thread that quantises.
  template <class Scales>
  __device__ __forceinline__ void run(Params const& params, Scales scales, char* memory) const {
    scales.template prepare<kConsumers>(params);  // while the first stages are on their way
    quantize_stages(params, scales, sm90::shared_address(memory), warp_number(), threadIdx.x % 32);
  }

 private:
  static __device__ __forceinline__ int warp_number() {
    return __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  }
  static __device__ __forceinline__ uint32_t slot(uint32_t shared, int stage, int warp) {
    return shared + stage * kStageBytes + warp * kSlotBytes;
  }
  static __device__ __forceinline__ uint32_t full(uint32_t shared, int stage, int warp) {
    return shared + kBarriersAt + (stage * (kWarps + 1) + warp) * 8;
  }
  static __device__ __forceinline__ uint32_t empty(uint32_t shared, int stage) { return full(shared, stage, kWarps); }

  // The producer warp: each lane loads one row of one consumer warp's slot at a time.
  static __device__ __forceinline__ void load_stages(Params const& params, uint32_t shared, int lane) {
    namespace ptx = sm90;
    Task<kWarps> task(params, blockIdx.x);
    int stage = 0;
    uint32_t parity = 1;  // of a ring that is empty
    do {
      int column = task.column_task * params.chunks * (32 * kCount);
      char const* x = params.x + task.group * params.group_x + int64_t(column) * Elements<Type>::kBytes;
#pragma unroll 1
      for (int chunk = 0; chunk < params.chunks; ++chunk) {
        int const left = params.k - column;  // elements: bytes may be more than an int holds
        ptx::barrier_wait(empty(shared, stage), parity);
#pragma unroll
        for (int first = 0; first < kWarps * kRows; first += 32) {
          int const warp = (first + lane) / kRows, i = lane % kRows;
          Quad const quad(params, task.group, task.quad(params, warp));
          int const count = quad.counts(i) && left > 0 ? min_of(left, 32 * kCount) : 0;
          int const bytes = count * Elements<Type>::kBytes;
          int total = bytes + __shfl_xor_sync(~0u, bytes, 1);
          total += __shfl_xor_sync(~0u, total, 2);
          if (i == 0) {
            ptx::barrier_expect(full(shared, stage, warp), total);
          }
          __syncwarp();
          if (bytes > 0) {
            ptx::copy_bytes(slot(shared, stage, warp) + i * kRowBytes, x + quad.row(i) * params.row_x, bytes,
                            full(shared, stage, warp), ptx::kEvictFirst);
          }
        }
        if (++stage == kStages) {
          stage = 0;
          parity ^= 1;
        }
        column += 32 * kCount;
        x += kRowBytes;
      }
    } while (task.next(params));
  }

  template <class Scales>
  static __device__ __forceinline__ void quantize_stages(Params const& params, Scales const& scales, uint32_t shared,
                                                         int warp, int lane) {
    namespace ptx = sm90;
    // The 32 bytes of neighbours would conflict in the same banks, so every other four threads read their halves in the
    // reverse order.
    bool const swapped = kThreadBytes == 32 && lane % 8 >= 4;
    Task<kWarps> task(params, blockIdx.x);
    int stage = 0;
    uint32_t parity = 0;
    do {
      Quad const quad(params, task.group, task.quad(params, warp));
      int column = (task.column_task * params.chunks * 32 + lane) * kCount;
      Place<Type, Format::kBits> place(params, task.group, quad, column);
#pragma unroll 1
      for (int chunk = 0; chunk < params.chunks; ++chunk) {
        uint32_t words[kRows][Source::kWords];
        ptx::barrier_wait(full(shared, stage, warp), parity);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          read(slot(shared, stage, warp) + i * kRowBytes + lane * kThreadBytes, swapped, words[i]);
        }
        // Every thread arrives for itself: racecheck reports a race if one arrives for its warp.
        ptx::barrier_arrive(empty(shared, stage) + ptx::zero_after(any_of(words)));
        if (quad.exists) {
          uint32_t scale_bits[kRows];
#pragma unroll
          for (int i = 0; i < kRows; ++i) {
            scale_bits[i] = quantize_part<Format, Type>(params, scales, task.group, quad, i, column, place.row(i),
                                                        Source::values(words[i]), swapped);
          }
          store_scales<Format, Type>(params, task.group, quad, column, lane, scale_bits);
        }
        if (++stage == kStages) {
          stage = 0;
          parity ^= 1;
        }
        column += 32 * kCount;
        place.next_chunk();
      }
    } while (task.next(params));
  }

  // A word that depends on every load of `words`.
  static __device__ __forceinline__ uint32_t any_of(uint32_t const (&words)[kRows][Source::kWords]) {
    uint32_t any = 0;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int load = 0; load < Source::kWords; load += 4) {
        any |= words[i][load];
      }
    }
    return any;
  }

  // Reads also bytes that no copy wrote; their results are not stored.
  static __device__ __forceinline__ void read(uint32_t address, bool swapped, uint32_t (&words)[Source::kWords]) {
    uint32_t part[4];
#pragma unroll
    for (int half = 0; half < Source::kWords / 4; ++half) {
      sm90::load_words(address + ((half ^ int(swapped)) * 16), part);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        words[half * 4 + j] = part[j];
      }
    }
  }
};

}  // namespace tilewright::quantize
