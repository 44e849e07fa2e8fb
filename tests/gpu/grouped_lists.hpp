// What the tests of the first kernel of grouped products on tcgen05 share: elements, memory of the device, and groups.
//
// It stands behind a generated unit, and in front of it KERNEL is the unit's name.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

using Gemm = tilewright::KERNEL::Gemm;
using Kernel = Gemm::Kernel;
using D = Kernel::CollectiveEpilogue::ElementD;

__host__ __device__ float element(void const* base, int64_t index, int bits) {
  if (bits == 16) {
    return float(static_cast<cutlass::bfloat16_t const*>(base)[index]);
  }
  if (bits == 8) {
    return float(static_cast<cutlass::float_e4m3_t const*>(base)[index]);
  }
  float const values[] = {0.f, .5f, 1.f, 1.5f, 2.f, 3.f, 4.f, 6.f};
  int const code = static_cast<uint8_t const*>(base)[index / 2] >> index % 2 * 4 & 15;
  return code < 8 ? values[code] : -values[code - 8];
}

// The second kernel: a thread block takes rows of one run. `Read::factors` answers what a product of elements is
// multiplied with, `Read::alpha` what a sum is.
template <class Read, class Lists>
__global__ void multiply(Lists lists) {
  int const run = blockIdx.y;
  auto const [m, n, k] = lists.shapes[run];
  constexpr int kBitsA = Gemm::kSwapAB ? Gemm::kBitsB : Gemm::kBitsA,
                kBitsB = Gemm::kSwapAB ? Gemm::kBitsA : Gemm::kBitsB;
  for (int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; at < int64_t(m) * n; at += gridDim.x * blockDim.x) {
    int const row = int(at / n), column = int(at % n);
    float sum = 0;
    for (int i = 0; i < k; ++i) {
      float const value = element(lists.a[run], row * int64_t(cute::get<0>(lists.stride_a[run])) + i, kBitsA) *
                          element(lists.b[run], column * int64_t(cute::get<0>(lists.stride_b[run])) + i, kBitsB);
      sum += value * Read::factors(lists.factors, run, row, column, i);
    }
    auto const& stride = lists.stride_d[run];
    lists.d[run][row * int64_t(cute::get<0>(stride)) + column * int64_t(cute::get<1>(stride))] =
        D(sum * Read::alpha(lists.factors, run));
  }
}

void check(cudaError_t error, char const* what) {
  if (error != cudaSuccess) {
    std::printf("%s: %s\n", what, cudaGetErrorString(error));
    std::exit(2);
  }
}

template <class Value>
Value* device(std::vector<Value> const& values) {
  void* address = nullptr;
  check(cudaMalloc(&address, values.size() * sizeof(Value) + 16), "cudaMalloc");
  check(cudaMemcpy(address, values.data(), values.size() * sizeof(Value), cudaMemcpyHostToDevice), "cudaMemcpy");
  return static_cast<Value*>(address);
}

std::mt19937 source(7);
int draw(int below) { return int(source() % unsigned(below)); }

std::vector<uint8_t> elements(int64_t count, int bits) {
  std::vector<uint8_t> bytes(count * bits / 8);
  for (int64_t i = 0; i < count; ++i) {
    if (bits == 16) {
      reinterpret_cast<cutlass::bfloat16_t*>(bytes.data())[i] = cutlass::bfloat16_t(float(draw(7) - 3));
    } else if (bits == 8) {
      reinterpret_cast<cutlass::float_e4m3_t*>(bytes.data())[i] = cutlass::float_e4m3_t(float(draw(7) - 3));
    } else {
      bytes[i / 2] |= draw(16) << i % 2 * 4;
    }
  }
  return bytes;
}

struct Case {
  char const* name;
  int grouping, m, n, k, groups, k_major, zero;
  int alignment = 128;  // rows at whose multiples groups begin
};

// The group of each row of A: -1 is padding.
std::vector<int> groups_of(Case const& c, std::vector<int>& numbers) {
  bool const own = c.grouping == TILEWRIGHT_GROUPING_NONE || c.grouping == TILEWRIGHT_GROUPING_ROWS_VALID;
  std::vector<int> groups(own ? c.m * c.groups : c.m, -1);
  numbers.clear();
  int begin = 0;
  for (int group = 0; group < c.groups; ++group) {
    int const most = own ? c.m : std::max(0, c.m - begin);
    int rows = c.grouping == TILEWRIGHT_GROUPING_NONE ? c.m : std::min(most, draw(3) == 0 ? 0 : draw(200));
    int const first = own ? group * c.m : begin;
    std::fill_n(groups.begin() + first, rows, group);
    begin = (begin + rows + c.alignment - 1) / c.alignment * c.alignment;
    numbers.push_back(own ? rows : first + rows);
  }
  if (c.grouping == TILEWRIGHT_GROUPING_ROW_INDEX) {
    numbers = groups;
  }
  return groups;
}

// Whether one of the 128 rows around `row` is of a group. A matrix has `rows` rows.
inline bool touched(std::vector<int> const& groups, int row, int rows) {
  int const matrix = row / rows, first = row - row % rows % 128;
  bool counts = false;
  for (int i = first; i < first + 128 && i / rows == matrix && i < int(groups.size()); ++i) {
    counts = counts || groups[i] >= 0;
  }
  return counts;
}

}  // namespace
