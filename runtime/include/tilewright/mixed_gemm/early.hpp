// The main loop of `mixed_gemm` and `mixed_grouped_gemm` kernels of 4-bit weights with the schedules `early` and
// `in_turn`. Compared with mainloop.hpp, a warpgroup loads a stage earlier, and in fewer instructions.
//
// A stage is 128 of k, which are two pieces of 64 (docs/packed_kernels.md). A warpgroup loads all of its words and
// scales of a stage at once, while the tensor core still has the stage before. Then it decodes each piece while the
// tensor core multiplies another one. Time runs to the right, `s.0` is piece 0 of stage s:
//
//   tensor core       | s.0           | s.1             | s+1.0           | s+1.1
//   the warpgroup     | decode s.1    | decode s+1.0    | decode s+1.1    | decode s+2.0
//   loads words of                    ^ s+1                               ^ s+2
//   gives back                                          ^ s                                 ^ s+1
//
//   waits                   for                                                by
//   the loads of a stage    its data                                           the stage's `full` mbarrier
//   the decoding of a piece wgmmas of the stage before, which read the same    wgmma.wait_group
//                           registers
//   the issue of wgmmas     the warpgroup before has issued (`in_turn` alone)  named barrier kTurn + warpgroup
//   the producer            all warpgroups: the stage has been read            the stage's `empty` mbarrier
//
// With `in_turn`, the warpgroups of a thread block issue the wgmmas of a piece one after the other, so that one
// warpgroup decodes while the tensor core multiplies for another. Without it, the tensor core alternates between the
// wgmmas of all warpgroups. These then end at the same time, and all warpgroups decode while the tensor core waits.
#pragma once

#include <cstdint>

#include "tilewright/mixed_gemm/early_format.hpp"
#include "tilewright/mixed_gemm/layout.hpp"
#include "tilewright/mixed_gemm/wgmma.hpp"
#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::mixed_gemm {

// The interface is that of Mainloop (mainloop.hpp). `kTurns`: warpgroups issue their wgmmas in turn.
template <class Type, class Format, class Layout, int N, int Stages, int Groups, int Consumers, bool kTurns>
struct EarlyMainloop {
  static constexpr int kCount = N / 2;
  using Own = EarlyFormat<Format>;
  // The scales of a stage are one set, or one set for each of its pieces.
  static constexpr int kSets = Layout::kSliceScales / Layout::kPieceScales;
  // Whether the second piece of a stage is loaded just before it is decoded: with four warpgroups, a thread has only
  // 112 registers.
  static constexpr bool kFewRegisters = Consumers == 4;
  // Whether the loop is rotated: an iteration begins with a stage's second piece and ends with the first piece of the
  // next stage. Then no iteration asks whether a stage came before, and the compiler keeps the stage in uniform
  // registers: 147 instructions a stage of 128x64x128 instead of 159. With decoders of more instructions, the rotated
  // loop is slower (benchmarks/results/packed_schedules.md).
  static constexpr bool kFromHalf = Own::kOneScale;
  static_assert(Format::kBits == 4 && Layout::Pieces == 2 && Stages % Groups == 0);
  static_assert(Layout::Slices * Groups == Consumers, "a warpgroup has 64 rows");

  uint32_t words_at, scales_at;  // addresses of this thread's words and scales in the first stage
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
    asm volatile("" : "+r"(stages));  // keeps it in a register: the compiler would compute it again for each stage
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
  uint32_t words[2][4];            // packed elements of the pieces that are decoded next
  typename Format::Scales scales[kSets];
  decltype(Own::factors(scales[0])) factors[kSets];
  typename Own::Unusual unusual;  // not 0 if a scale of the warp's stage is not a usual one
  uint32_t fragments[2][16];      // decoded weights, by piece
  int last;                       // the stage that is multiplied

  // Issues the wgmmas of the first piece of the stage at `at`, and moves `at` to the next stage. Returns the low word
  // of the descriptor of the stage's activations.
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

  // An iteration of the loop that is not rotated: multiplies a stage whose first piece is decoded and whose second
  // piece is loaded. `kMore`: loads the next stage and decodes its first piece. `before`: this is not the tile's
  // first stage.
  template <bool kMore>
  __device__ __forceinline__ void stage(bool before, float (&sums)[kCount]) {
    int const previous = last;
    uint32_t const b = multiply_first(sums);
    sm90::wgmma_wait<1>();  // the stage before is done
    sm90::hold(fragments[1]);
    decode(1);
    // All that was loaded has been decoded, so the arrival comes after the loads.
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

  // Waits for the stage at `at`, and loads this thread's words and scales of it.
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

  // Finds whether a stage's scales are usual ones (quick.hpp), and makes its factors.
  __device__ __forceinline__ void look_at_scales() {
    bool usual = true;
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
      usual &= Own::are_usual(scales[set]);
      factors[set] = Own::factors(scales[set]);
    }
    unusual = Own::unusual(usual);
  }

  // Decodes a loaded piece to its registers, again where a scale is not a usual one: see decode_quickly (quick.hpp).
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
      asm volatile("" : "+r"(word));  // hides that both decoders have the same scales: they share no instructions
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

  // Issues the wgmmas of a piece when it is this warpgroup's turn, and passes the turn. `b`: the low word of the
  // descriptor of the stage's activations.
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

// The types and constants of a kernel, `Types_`, with EarlyMainloop as its main loop.
template <class Types_, bool kTurns>
struct EarlyTypes : Types_ {
  using Mainloop = EarlyMainloop<typename Types_::Type, typename Types_::Format, typename Types_::Layout,
                                 Types_::kColumns, Types_::Stages, Types_::kGroups, Types_::kConsumers, kTurns>;
  static_assert(Types_::kRows == 1, "a warpgroup has 64 rows");
  // `mixed_grouped_gemm` kernels call this before the main loop, which needs nothing of a launch.
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

// A kernel with EarlyMainloop in place of its own main loop: without turns, and with them.
template <class Kernel>
using Early = typename detail::WithEarly<Kernel, false>::Result;
template <class Kernel>
using InTurn = typename detail::WithEarly<Kernel, true>::Result;

}  // namespace tilewright::mixed_gemm
