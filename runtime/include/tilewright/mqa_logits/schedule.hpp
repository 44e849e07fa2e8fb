// Where each thread block of a paged kernel begins: a sequence (or the first of some tokens of a sequence, in a batch
// of variable length) and a split of kSplit keys. The numbers of splits of any two thread blocks differ by at most one.
#pragma once

#include <cstdint>

#include "tilewright/mqa_logits/work.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::mqa_logits {

struct ScheduleParams {
  int32_t const* lengths;  // [sequences, per_sequence]
  int32_t const* indices;  // [sequences], or null
  int32_t* out;            // [blocks + 1, 2]
  int64_t ld;
  int sequences, per_sequence, blocks;
};

// Runs as one thread block, in two passes over the lengths: first their sum, then the running sums, among which each
// thread finds the starts that fall into its sequence.
template <int Threads, bool kPdl>
struct ScheduleKernel {
  using Params = ScheduleParams;
  static constexpr int kThreads = Threads, kWarps = Threads / 32;
  static constexpr int kSharedBytes = 0;  // dynamic

  __device__ __forceinline__ void operator()(Params const& params, char*) const {
    __shared__ Warps splits, runs;
    if constexpr (kPdl) {
      sm90::wait_for_previous_kernel();
      sm90::allow_next_kernel();
    }
    int64_t const blocks = params.blocks;
    int64_t const total = pass(params, splits, runs, [](int, int64_t, int) {});
    if (total > 0) {
      pass(params, splits, runs, [&](int sequence, int64_t before, int own) {
        // Block b begins at split b * total / blocks, rounded down.
        for (int64_t b = (before * blocks + total - 1) / total; b * total / blocks < before + own && b < blocks; ++b) {
          write(params, b, sequence, static_cast<int>(b * total / blocks - before));
        }
      });
    }
    for (int b = total > 0 ? params.blocks + threadIdx.x : threadIdx.x; b <= params.blocks; b += Threads) {
      write(params, b, params.sequences, 0);
    }
  }

 private:
  using Warps = int[kWarps];

  static __device__ void write(Params const& params, int64_t block, int sequence, int split) {
    params.out[block * params.ld] = sequence;
    params.out[block * params.ld + 1] = split;
  }

  // Calls body(sequence, splits before it, its own splits) for each of the thread's sequences. Returns the splits of
  // all.
  template <class Body>
  static __device__ int64_t pass(Params const& params, Warps& splits_through, Warps& runs_through, Body const& body) {
    int64_t before = 0;
    int run = 0;  // where the current run of equal indices began
    for (int first = 0; first < params.sequences; first += Threads) {
      int const sequence = first + threadIdx.x;
      bool const exists = sequence < params.sequences;
      bool heads = exists;
      if (params.indices != nullptr) {
        bool const begins = exists && (sequence == 0 || params.indices[sequence] != params.indices[sequence - 1]);
        int const start = max(run, scan(runs_through, begins ? sequence : 0, [](int x, int y) { return max(x, y); }));
        run = max(run, last(runs_through));
        heads = exists && (sequence - start) % kGroup == 0;
      }
      int const splits = heads ? (length(params, sequence) + kSplit - 1) / kSplit : 0;
      int const through = scan(splits_through, splits, [](int x, int y) { return x + y; });
      if (exists) {
        body(sequence, before + through - splits, splits);
      }
      before += last(splits_through);
    }
    return before;
  }

  // The largest length of a sequence, or of the tokens that are computed together.
  static __device__ int length(Params const& params, int sequence) {
    int longest = 0;
    if (params.indices == nullptr) {
      for (int i = 0; i < params.per_sequence; ++i) {
        longest = max(longest, params.lengths[int64_t{sequence} * params.per_sequence + i]);
      }
      return longest;
    }
    int const end = min(sequence + kGroup, params.sequences);
    for (int i = sequence; i < end && params.indices[i] == params.indices[sequence]; ++i) {
      longest = max(longest, params.lengths[i]);
    }
    return longest;
  }

  // Joins the values of all threads up to this one (an inclusive scan). Afterwards `warps` holds each warp's last
  // result.
  template <class Join>
  static __device__ int scan(Warps& warps, int value, Join const& join) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    auto const within = [&](int x) {
      for (int step = 1; step < 32; step *= 2) {
        int const below = __shfl_up_sync(~0u, x, step);
        x = lane >= step ? join(below, x) : x;
      }
      return x;
    };
    value = within(value);
    __syncthreads();  // all threads have read the previous results
    if (lane == 31) {
      warps[warp] = value;
    }
    __syncthreads();
    if (warp == 0) {
      int const through = within(lane < kWarps ? warps[lane] : 0);
      if (lane < kWarps) {
        warps[lane] = through;
      }
    }
    __syncthreads();
    return warp > 0 ? join(warps[warp - 1], value) : value;
  }

  static __device__ int last(Warps const& warps) { return warps[kWarps - 1]; }
};

}  // namespace tilewright::mqa_logits
