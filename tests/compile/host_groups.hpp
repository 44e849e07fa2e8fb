// What programs that run `grouped_gemm` kernels of mma.sync on the host share: launches of small kernels, scale
// factors, and groups of rows.
#pragma once

#include "host_products.hpp"

#define __global__
#define __cluster_dims__(...)
#define __launch_bounds__(...)
#define __grid_constant__

// cuda_runtime_api.h
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

// Runs the thread blocks of a kernel, one after the other.
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(cudaLaunchConfig_t const* config, void (*kernel)(Parameters...),
                               Arguments const&... arguments) {
  int const block = blockIdx.x;
  blockDim.x = config->blockDim.x;
  for (blockIdx.x = 0; blockIdx.x < int(config->gridDim.x); ++blockIdx.x) {
    run(blockDim.x, [&] { kernel(arguments...); });
  }
  blockIdx.x = block;
  return cudaSuccess;
}

#include "tilewright/grouped_gemm/args.h"

namespace host {

// Scale factors, powers of two: columns of `rows` factors, `blocks` of them, in each matrix. Or words of four.
struct Factors {
  int rows, blocks;
  int64_t leading, matrix;
  bool k_major;
  std::vector<float> values;

  Factors(int matrices, int high, int wide, bool contiguous_k) : rows(high), blocks(wide), k_major(contiguous_k) {
    leading = (k_major ? wide : high) + 3 & ~3;
    matrix = leading * (k_major ? high : wide);
    for (int64_t i = 0; i < matrix * matrices + 8; ++i) {
      values.push_back(std::ldexp(1.0f, int(random(4)) - 2));
    }
  }
  float const* data() {
    copy.assign(values.size() + 4, NAN);
    float* const to = copy.data() + (16 - reinterpret_cast<uintptr_t>(copy.data()) % 16) % 16 / 4;
    std::copy(values.begin(), values.end(), to);
    return to;
  }
  int64_t words_of_matrix() const { return (blocks + 3) / 4 * leading; }
  float const* words() {
    packed.assign(words_of_matrix() * int64_t(values.size() / matrix) + 4, ~0u);
    uint32_t* const to = packed.data() + (16 - reinterpret_cast<uintptr_t>(packed.data()) % 16) % 16 / 4;
    for (int64_t of = 0; of < int64_t(values.size() / matrix); ++of) {
      for (int row = 0; row < rows; ++row) {
        for (int block = 0; block < (blocks + 3) / 4 * 4; ++block) {
          uint32_t& word = to[of * words_of_matrix() + block / 4 * leading + row];
          uint32_t const exponent = block < blocks ? 127 + std::ilogb(at(int(of), row, block)) : 0;
          word = (block % 4 == 0 ? 0 : word) | exponent << block % 4 * 8;
        }
      }
    }
    return reinterpret_cast<float const*>(to);
  }
  double at(int of, int row, int block) const {
    return values[of * matrix + (k_major ? row * leading + block : block * leading + row)];
  }

 private:
  std::vector<float> copy;
  std::vector<uint32_t> packed;
};

struct Shape {
  int m, n, k, groups = 1;
  int alignment = 128;
};

struct Options {
  bool c = false, in_place = false;
  bool zeroes = false;
  bool k_major = false;  // 128x128 scales
  int left = 0, gap = 0, right = 0;
  bool broadcast_a = false;
};

// The group of each row of D, -1 for padding, and what the kernel reads of it.
struct Rows {
  std::vector<int> of, ends, valid;

  Rows(int grouping, Shape const& shape) {
    auto const [m, n, k, groups, alignment] = shape;
    if (grouping == TILEWRIGHT_GROUPING_ROWS_VALID) {
      for (int g = 0; g < groups; ++g) {
        valid.push_back(g == 1 ? 0 : int(random(m + 1)));
        for (int row = 0; row < m; ++row) {
          of.push_back(row < valid[g] ? g : -1);
        }
      }
      return;
    }
    if (grouping == TILEWRIGHT_GROUPING_NONE || grouping == TILEWRIGHT_GROUPING_K_SIZES) {
      for (int row = 0; row < m * groups; ++row) {
        of.push_back(row / m);
      }
      return;
    }
    of.assign(m, -1);
    for (int g = 0, row = 0; g < groups; ++g) {
      int const begin = std::min(row, m), end = std::min(m, row + int(random(2 * m / groups)));
      std::fill(of.begin() + begin, of.begin() + end, g);
      ends.push_back(end);
      row = (end + alignment - 1) / alignment * alignment;
    }
  }
};

}  // namespace host
