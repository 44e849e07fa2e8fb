// FP8 whose scales belong to 128 rows: a thread block holds 128 rows of 128 columns of x in its registers.
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"
#include "tilewright/quantize/rows.hpp"

namespace tilewright::quantize {

template <class Type, int kThreads>
struct Block {
  using Source = Plain<Type>;
  static constexpr int kSide = 128;
  static constexpr int kCount = Elements<Type>::kCount;
  static constexpr int kWords = kCount / 4;        // of data
  static constexpr int kLanes = kSide / kCount;    // of a row
  static constexpr int kStep = kThreads / kLanes;  // rows that the thread block takes at a time
  static constexpr int kParts = kSide / kStep;     // of a thread
  using Task = quantize::Task<kSide / kRows>;

  static bool takes(tilewright_quantize_args const& args) {
    return quantize::takes(args, Elements<Type>::kBytes * 8, 8, kCount, false, kSide);
  }

  // `columns`: that share a scale.
  static void make_params(tilewright_quantize_args const& args, Params& params, LaunchShape& shape, int columns) {
    set_params(args, params, Elements<Type>::kBytes * 8, 8, columns, false, kSide / kRows, kSide, kSide);
    shape.grid = dim3(set_grid(args, params));
  }

  int limit;        // how many rows of the group count
  int column, own;  // the thread's first column and row
  uint32_t words[kParts][Source::kWords];

  __device__ __forceinline__ Block(Params const& params, Task const& task)
      : limit(Quad(params, task.group, 0).limit),
        column(task.column_task * kSide + threadIdx.x % kLanes * kCount),
        own(tile(params, task) * kSide + threadIdx.x / kLanes) {
    char const* const x = params.x + task.group * params.group_x + int64_t(column) * Elements<Type>::kBytes;
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      Source::read(params, x + row(i) * params.row_x, words[i], counts(params, i));
    }
  }

  // The number of these 128 rows among those of their group.
  static __device__ __forceinline__ int tile(Params const& params, Task const& task) {
    return task.row_task - task.group * params.row_tasks;
  }
  __device__ __forceinline__ int row(int i) const { return own + i * kStep; }
  __device__ __forceinline__ bool counts(Params const& params, int i) const {
    return row(i) < limit && column < params.k;
  }
  __device__ __forceinline__ auto values(int i) const { return Source::values(words[i]); }

  // The thread's elements of part `i`.
  __device__ __forceinline__ void store(Params const& params, int group, int i, uint32_t const (&data)[kWords]) const {
    if (counts(params, i)) {
      quantize::store(params.data + group * params.group_data + row(i) * params.row_data + column, data);
    }
  }
};

}  // namespace tilewright::quantize
