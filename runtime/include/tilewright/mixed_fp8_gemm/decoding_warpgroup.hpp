// The warpgroup that decodes ahead of the two warpgroups that multiply (ahead.hpp).
//
// A buffer holds the fragments of a slice's 128 of k: for each wgmma (32 of k), the four words of operand A of each
// thread of the warpgroup that multiplies the slice, in the order of threads. Each slice has `Layout::Buffers` buffers:
//
//   waits                          for                                   by
//   the decoder, before a stage    the stage's data                      the stage's `full` mbarrier
//   the decoder, before a buffer   the fragments have been loaded        the buffer's `taken` mbarrier
//   a warpgroup that multiplies    the fragments are stored              the buffer's `decoded` mbarrier
//
// The decoder does not arrive at a stage's `empty` mbarrier. The warpgroups that multiply do so, after `decoded`.
#pragma once

#include <cstdint>

#include "tilewright/mixed_fp8_gemm/decode.hpp"
#include "tilewright/mixed_fp8_gemm/layout.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::mixed_fp8_gemm {

// Initialises the barriers of the buffers. Called by one thread.
template <class Layout>
__device__ __forceinline__ void start_buffers(uint32_t shared) {
#pragma unroll
  for (int slice = 0; slice < Layout::Slices; ++slice) {
#pragma unroll
    for (int index = 0; index < Layout::Buffers; ++index) {
      sm90::barrier_init(Layout::decoded(shared, slice, index), 4);  // a thread of each warp of the decoder arrives
      sm90::barrier_init(Layout::taken(shared, slice, index), 4);    // as of the warpgroup that multiplies
    }
  }
}

constexpr int kStepBytes = 2048;  // bytes of a wgmma's fragments

// The offset of a thread's four words of a wgmma among the wgmma's fragments. `quad`: the thread's quad (four lanes) in
// its warpgroup; `half`: which two of the quad's threads; `second`: whether it is the second of these. Neither these
// threads' loads nor the decoder's stores have bank conflicts: the exclusive or moves the halves to different banks.
__device__ __forceinline__ uint32_t fragment_offset(int quad, int half, int second) {
  return half * 1024 + ((quad * 2 + second) ^ (half * 4)) * 16;
}

// A thread decodes elements of one slice: both halves of the words of two threads of a quad. Lanes 0 to 15 of a warp
// decode the first slice, the others the second.
template <class Format, class Layout, int Stages>
struct Decoder {
  static_assert(Layout::Slices == 2);

  uint32_t shared;
  int slice = static_cast<int>(threadIdx.x) / 16 % 2;
  int quad = static_cast<int>(threadIdx.x) % 128 / 32 * 8 + static_cast<int>(threadIdx.x) % 16 / 2;
  int second = static_cast<int>(threadIdx.x) % 2;
  sm90::Position<Stages> at{};
  sm90::Position<Layout::Buffers> to{};

  // Decodes the next `stages` stages of the ring. When the buffers of a stage are decoded, its elements and scales have
  // been read, so the warpgroups that multiply can give it back.
  __device__ __forceinline__ void run(int stages) {
#pragma unroll 1
    for (int i = 0; i < stages; ++i) {
      sm90::barrier_wait(Layout::full(shared, at.stage), at.phase);
      sm90::barrier_wait(Layout::taken(shared, 0, to.stage), to.phase ^ 1);
      sm90::barrier_wait(Layout::taken(shared, 1, to.stage), to.phase ^ 1);
      decode();
      __syncwarp();
      if (threadIdx.x % 16 == 0) {
        sm90::barrier_arrive(Layout::decoded(shared, slice, to.stage));
      }
      at.next();
      to.next();
    }
  }

 private:
  __device__ __forceinline__ void decode() const {
    uint32_t const own_elements = Layout::weights(shared, at.stage, slice) + quad * 64 + second * 32;
    uint32_t const buffer = Layout::buffer(shared, slice, to.stage);
    typename Format::Scales scales;
    scales.load(Layout::scales(shared, at.stage, slice), quad);
#pragma unroll
    for (int piece = 0; piece < 2; ++piece) {
      Elements elements;
      elements.load(own_elements + piece * mixed_gemm::kPieceBytes);
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        int const step = piece * 2 + pair;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          uint32_t out[2][2];  // by chunk of the step, row
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            elements.template decode<Format>(scales, piece, pair * 2 + i, half, out[i]);
          }
          sm90::store_words(buffer + step * kStepBytes + fragment_offset(quad, half, second), out[0][0], out[0][1],
                            out[1][0], out[1][1]);
        }
      }
    }
  }
};

}  // namespace tilewright::mixed_fp8_gemm
