// Kernels of `mixed_gemm` that load earlier than mainloop.hpp, and in fewer instructions: all words and scales of a
// stage at once, while the second piece of the stage before is multiplied. With turns, the warpgroups of a thread block
// issue their wgmmas one after the other, so that one of them decodes while another one multiplies.
//
// Without turns the tensor core alternates between the wgmmas of all warpgroups. They then end at the same time, and
// all of the warpgroups decode at once, while the tensor core waits.
#pragma once

#include <cstdint>

#include "tilewright/mixed_gemm/early_format.hpp"
#include "tilewright/mixed_gemm/layout.hpp"
#include "tilewright/mixed_gemm/wgmma.hpp"
#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::mixed_gemm {

// As Mainloop, of 4-bit codes, stages of 128 of k, and warpgroups of 64 rows each.
template <class Type, class Format, class Layout, int N, int Stages, int Groups, int Consumers, bool kTurns>
struct EarlyMainloop {
  static constexpr int kCount = N / 2;
  using Own = EarlyFormat<Format>;
  // Scales of a stage: one set, or one for each of its pieces.
  static constexpr int kSets = Layout::kSliceScales / Layout::kPieceScales;
  // Whether the second piece of a stage is loaded just before it is decoded: four warpgroups have 112 registers a
  // thread.
  static constexpr bool kFewRegisters = Consumers == 4;
  // Whether a turn of the loop is from one stage's second piece to the next stage's: then nothing says whether a stage
  // came before, and the compiler keeps the stage in uniform registers, 147 instructions a stage of 128x64x128 instead
  // of 159. With more instructions in the decoder, this order is slower (benchmarks/results/packed_schedules.md).
  static constexpr bool kFromHalf = Own::kOneScale;
  static_assert(Format::kBits == 4 && Layout::Pieces == 2 && Stages % Groups == 0);
  static_assert(Layout::Slices * Groups == Consumers, "a warpgroup has 64 rows");

  uint32_t words_at, scales_at;  // of this thread in the first stage
  uint32_t shared, descriptor;   // the low word of the descriptor of the first stage's activations
  int warpgroup;
  sm90::Release release;
  sm90::Position<Stages> at{};

  __device__ __forceinline__ EarlyMainloop(uint32_t memory, int slice, int group, sm90::Release const& readers)
      : shared(memory),
        descriptor(static_cast<uint32_t>(sm90::swizzled_descriptor(memory))),
        warpgroup(threadIdx.x / 128),
        release(readers) {
    int const thread = threadIdx.x % 128;
    words_at = Layout::weights(memory, 0, slice) + thread * 16;
    scales_at = Layout::scales(memory, 0, slice) + thread / 4 * static_cast<int>(sizeof(typename Format::Scales));
    at.stage = group;
    if (kTurns && warpgroup == Consumers - 1) {
      sm90::named_barrier_arrive(kTurn, 256);  // the first warpgroup begins
    }
  }

  // Multiplies the group's next `stages` stages of the ring.
  __device__ __forceinline__ void run(int stages, float (&tile)[1][kCount]) {
    float (&sums)[kCount] = tile[0];
#pragma unroll
    for (float& sum : sums) {
      sum = 0.0f;
    }
    if (Groups > 1 && stages == 0) {
      return;
    }
    load_stage();
    look_at_scales();
    decode(0);
    asm volatile("" : "+r"(stages));  // in a register: the compiler would compute it again for each stage
    if constexpr (kFromHalf) {
      uint32_t b = multiply_first(sums);
      decode(1);
#pragma unroll 1
      for (; stages > 1; --stages) {
        int const previous = last;
        load_stage();
        multiply(1, b, sums);
        look_at_scales();
        sm90::wgmma_wait<1>();
        sm90::hold(fragments[0]);
        decode(0);
        b = multiply_first(sums);
        sm90::wgmma_wait<1>();  // the stage before is done
        sm90::hold(fragments[1]);
        release(previous);
        decode(1);
      }
      multiply(1, b, sums);
    } else {
      bool before = false;
#pragma unroll 1
      for (; stages > 1; --stages) {
        stage<true>(before, sums);
        before = true;
      }
      stage<false>(before, sums);
    }
    sm90::wgmma_wait<0>();
    sm90::hold(fragments[0]);
    sm90::hold(fragments[1]);
    sm90::hold(sums);
    release(last);
  }

 private:
  static constexpr int kTurn = 8;  // named barriers: warpgroup i waits at kTurn + i
  uint32_t words[2][4];            // of the pieces that are decoded next
  typename Format::Scales scales[kSets];
  decltype(Own::factors(scales[0])) factors[kSets];
  typename Own::Unusual unusual;  // whether a scale of the warp's stage is: not 0
  uint32_t fragments[2][16];
  int last;  // the stage that is multiplied

  // Multiplies the first piece of the stage at `at`, and goes on to the next stage. Answers the low word of the
  // descriptor of the stage's activations.
  __device__ __forceinline__ uint32_t multiply_first(float (&sums)[kCount]) {
    last = at.stage;
    uint32_t const b = descriptor + last * (Layout::kStageB >> 4);
    at.stage += Groups;
    if (at.stage >= Stages) {
      at.stage -= Stages;
      at.phase ^= 1;
    }
    multiply(0, b, sums);
    if (kFewRegisters) {
      sm90::load_words(words_at + last * Layout::kStageA + Layout::kPieceBytes, words[1]);
    }
    return b;
  }

  // Multiplies a stage whose first piece is decoded and whose second one is loaded. `kMore`: loads the next stage, and
  // decodes its first piece. `before`: a stage of this tile was multiplied before.
  template <bool kMore>
  __device__ __forceinline__ void stage(bool before, float (&sums)[kCount]) {
    int const previous = last;
    uint32_t const b = multiply_first(sums);
    sm90::wgmma_wait<1>();  // the stage before is done
    sm90::hold(fragments[1]);
    decode(1);
    // All that was loaded has been decoded: the arrival comes after the loads.
    if (before) {
      release(previous);
    }
    if constexpr (kMore) {
      load_stage();
    }
    multiply(1, b, sums);
    sm90::wgmma_wait<1>();
    sm90::hold(fragments[0]);
    if constexpr (kMore) {
      look_at_scales();
      decode(0);
    }
  }

  // Loads this thread's words and scales of the stage at `at`, when it has arrived.
  __device__ __forceinline__ void load_stage() {
    sm90::barrier_wait(Layout::full(shared, at.stage), at.phase);
    uint32_t const from = words_at + at.stage * Layout::kStageA;
    sm90::load_words(from, words[0]);
    if (!kFewRegisters) {
      sm90::load_words(from + Layout::kPieceBytes, words[1]);
    }
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
      scales[set].load(scales_at + at.stage * Layout::kStageScales + set * Layout::kPieceScales);
    }
  }

  // Looks for unusual scales of a stage, and makes its factors.
  __device__ __forceinline__ void look_at_scales() {
    bool usual = true;
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
      usual &= Own::are_usual(scales[set]);
      factors[set] = Own::factors(scales[set]);
    }
    unusual = Own::unusual(usual);
  }

  // Decodes a loaded piece to its registers: see decode_quickly.
  __device__ __forceinline__ void decode(int piece) {
    uint32_t (&out)[16] = fragments[piece];
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      Own::decode(words[piece][step], factors[piece % kSets], step, out + step * 4);
    }
    if constexpr (Own::kIsQuick) {
#pragma unroll
      for (uint32_t& pair : out) {
        asm volatile("" : "+r"(pair));
      }
      if (__builtin_expect(unusual, 0)) {
        decode_unusual(piece, scales[piece % kSets], out);
      }
    }
  }

  __device__ __forceinline__ void decode_unusual(int piece, typename Format::Scales others, uint32_t (&out)[16]) const {
#pragma unroll
    for (uint32_t& word : others.words) {
      asm volatile("" : "+r"(word));  // shares no steps with the quick way, which has others
    }
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      uint32_t pairs[4];
      Format::decode(words[piece] + step, others, step, pairs);
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        out[step * 4 + pair] = pairs[pair];
      }
    }
  }

  // Issues the wgmmas of a piece, when it is this warpgroup's turn. `b`: the low word of the descriptor of the
  // stage's activations.
  __device__ __forceinline__ void multiply(int piece, uint32_t b, float (&sums)[kCount]) const {
    uint64_t const high = sm90::swizzled_descriptor(0) & 0xFFFFFFFF00000000;
    if constexpr (kTurns) {
      sm90::named_barrier_sync(kTurn + warpgroup, 256);
    }
    sm90::wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      sm90::WideWgmma<Type, N>::run(sums, fragments[piece] + step * 4,
                                    high | (b + piece * (Layout::kBoxB >> 4) + step * 2), true);
    }
    sm90::wgmma_commit();
    if constexpr (kTurns) {
      sm90::named_barrier_arrive(warpgroup + 1 == Consumers ? kTurn : kTurn + 1 + warpgroup, 256);
    }
  }
};

// As `Types_`, with this main loop.
template <class Types_, bool kTurns>
struct EarlyTypes : Types_ {
  using Mainloop = EarlyMainloop<typename Types_::Type, typename Types_::Format, typename Types_::Layout,
                                 Types_::kColumns, Types_::Stages, Types_::kGroups, Types_::kConsumers, kTurns>;
  static_assert(Types_::kRows == 1, "a warpgroup has 64 rows");
  // Kernels of groups call this; a launch tells this main loop nothing.
  template <class Params>
  static __device__ __forceinline__ void prepare(Params const&, Mainloop&) {}
};

namespace detail {
template <class Kernel, bool kTurns>
struct WithEarly;
template <template <class> class Phases, class Types, bool kTurns>
struct WithEarly<Phases<Types>, kTurns> {
  using Result = Phases<EarlyTypes<Types, kTurns>>;
};
}  // namespace detail

// A kernel with this main loop in place of its own: without turns, and with them.
template <class Kernel>
using Early = typename detail::WithEarly<Kernel, false>::Result;
template <class Kernel>
using InTurn = typename detail::WithEarly<Kernel, true>::Result;

}  // namespace tilewright::mixed_gemm
