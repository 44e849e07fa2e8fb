// What the first kernel of grouped products on tcgen05 writes, read as CUTLASS reads it: a generated unit, compiled for
// sm_90a, whose second kernel is a plain product here. D is compared to the bit with a product on the host.
//
// KERNEL is the unit's name, SOURCE its file, FACTORS the policy of its scale factors.
#include SOURCE

#include "grouped_lists.hpp"

namespace {

using Factors = tilewright::grouped_gemm::FACTORS<Gemm>;
using First = tilewright::grouped_gemm::Prepare<Gemm, Factors>;
using Lists = tilewright::grouped_gemm::Lists<Kernel, Factors>;
using Args = tilewright_grouped_gemm_args;

constexpr bool kPlain = std::is_empty_v<Factors::Lists>;

template <class Scale, class Layout>
__device__ float factor(Scale const* scales, Layout const& layout, int row, int k) {
  auto const value = scales[layout(row, k, 0)];
  if constexpr (sizeof(Scale) == 4) {
    return value;
  } else {
    return ldexpf(1.f, int(reinterpret_cast<uint8_t const&>(value)) - 127);
  }
}

struct Read {
  // The product of the factors of A and B; 1 if the kernel has none.
  template <class FactorLists>
  static __device__ float factors(FactorLists const& lists, int run, int row, int column, int k) {
    if constexpr (std::is_empty_v<FactorLists>) {
      return 1.f;
    } else {
      return factor(lists.scale_a[run], lists.layout_a[run], row, k) *
             factor(lists.scale_b[run], lists.layout_b[run], column, k);
    }
  }

  template <class FactorLists>
  static __device__ float alpha(FactorLists const&, int) {
    return 1.f;
  }
};

// Scale factors of the caller: F32 of 128 of k, or words of four UE8M0. A line of `ld` rows for each of `lines`.
struct Scales {
  std::vector<uint32_t> words;
  int64_t ld, stride;
  int rows_of_one;  // rows that share a factor
  bool k_major;

  float at(int matrix, int row, int k, int block) const {
    int const across = row / rows_of_one, down = k / block;
    if (FLOATS) {
      int64_t const place = k_major ? across * ld + down : down * ld + across;
      float value;
      std::memcpy(&value, &words[matrix * stride + place], 4);
      return value;
    }
    return std::ldexp(1.f, int(words[matrix * stride + down / 4 * ld + across] >> down % 4 * 8 & 255) - 127);
  }
};

Scales scales(int matrices, int rows, int k, int block, int rows_of_one, bool k_major) {
  int const across = (rows + rows_of_one - 1) / rows_of_one, down = (k + block - 1) / block;
  int const lines = FLOATS ? down : (down + 3) / 4;
  Scales out{{}, k_major ? down : (across + 3) / 4 * 4, 0, rows_of_one, k_major};
  out.stride = out.ld * (k_major ? across : lines);
  out.words.resize(matrices * out.stride);
  for (uint32_t& word : out.words) {
    if (FLOATS) {
      float const values[] = {.5f, 1.f, 2.f, 3.f};
      std::memcpy(&word, &values[draw(4)], 4);
    } else {
      for (int i = 0; i < 4; ++i) {
        word |= uint32_t(126 + draw(3)) << 8 * i;
      }
    }
  }
  return out;
}

int wrong(Case const& c) {
  bool const own = c.grouping == TILEWRIGHT_GROUPING_NONE || c.grouping == TILEWRIGHT_GROUPING_ROWS_VALID;
  int const matrices = own ? c.groups : 1;
  int64_t const ld_a = c.k + 128, ld_b = c.k, ld_d = c.n + 8;
  std::vector<int> numbers;
  std::vector<int> const groups = groups_of(c, numbers);
  auto const a = elements(matrices * c.m * ld_a, Gemm::kBitsA), b = elements(c.groups * c.n * ld_b, Gemm::kBitsB);
  Scales const of_a = scales(matrices, c.m, c.k, BLOCK, 1, false);
  Scales const of_b = scales(c.groups, c.n, c.k, BLOCK, ROWS_B, ROWS_B == 128 && c.k_major);
  std::vector<D> const poison(matrices * c.m * ld_d, D(77.f));

  Args args{};
  args.m = c.m, args.n = c.n, args.k = c.k, args.groups = c.groups;
  args.a = device(a), args.b = device(b);
  args.scale_a = reinterpret_cast<float*>(device(of_a.words));
  args.scale_b = reinterpret_cast<float*>(device(of_b.words));
  D* const d = device(poison);
  args.d = d;
  int* const list = device(numbers);
  args.group_of_row = c.grouping == TILEWRIGHT_GROUPING_ROW_INDEX ? list : nullptr;
  args.group_ends = c.grouping == TILEWRIGHT_GROUPING_ENDS ? list : nullptr;
  args.rows_valid = c.grouping == TILEWRIGHT_GROUPING_ROWS_VALID ? list : nullptr;
  args.ld_a = ld_a, args.ld_b = ld_b, args.ld_d = ld_d, args.ld_scale_a = of_a.ld, args.ld_scale_b = of_b.ld;
  args.batch_stride_a = c.m * ld_a, args.batch_stride_b = c.n * ld_b, args.batch_stride_d = c.m * ld_d;
  args.batch_stride_scale_a = of_a.stride, args.batch_stride_scale_b = of_b.stride;
  args.grouping = c.grouping, args.row_alignment = 128, args.zero_padding = c.zero;
  args.scales_k_major = of_b.k_major;

  uintptr_t bytes = 0;
  Lists::at(args, bytes);
  uintptr_t next = reinterpret_cast<uintptr_t>(device(std::vector<uint8_t>(bytes, 0xFF)));
  auto const params = First::params(args, Lists::at(args, next));
  tilewright::grouped_gemm::prepare<Gemm, Factors><<<unsigned(First::blocks(params)), First::kThreads>>>(params);
  multiply<Read><<<dim3(64, tilewright::grouped_gemm::runs_of(args)), 256>>>(params.lists);
  check(cudaDeviceSynchronize(), c.name);
  std::vector<D> actual(poison.size());
  check(cudaMemcpy(actual.data(), d, actual.size() * sizeof(D), cudaMemcpyDeviceToHost), "cudaMemcpy");

  int faults = 0;
  for (int row = 0; row < matrices * c.m; ++row) {
    int const matrix = row / c.m, in = row % c.m, group = groups[row];
    for (int column = 0; column < ld_d; ++column) {
      float sum = group < 0 && (touched(groups, row, c.m) || c.zero) ? 0.f : 77.f;
      if (column >= c.n) {
        sum = 77.f;
      } else if (group >= 0) {
        sum = 0;
        for (int k = 0; k < c.k; ++k) {
          float value = element(a.data(), row * ld_a + k, Gemm::kBitsA) *
                        element(b.data(), (int64_t(group) * c.n + column) * ld_b + k, Gemm::kBitsB);
          if (!kPlain) {
            value *= of_a.at(matrix, in, k, BLOCK) * of_b.at(group, column, k, BLOCK);
          }
          sum += value;
        }
      }
      faults += !(float(actual[row * ld_d + column]) == float(D(sum)));
    }
  }
  std::printf("%s: %d wrong\n", c.name, faults);
  return faults;
}

}  // namespace

int main() {
  Case const cases[] = {
      {"batch", TILEWRIGHT_GROUPING_NONE, 200, 136, 288, 3, 1, 0},
      {"ends", TILEWRIGHT_GROUPING_ENDS, 1400, 264, 160, 6, 0, 0},
      {"ends, zeroed", TILEWRIGHT_GROUPING_ENDS, 1400, 136, 672, 6, 1, 1},
      {"index", TILEWRIGHT_GROUPING_ROW_INDEX, 1300, 264, 288, 7, 1, 0},
      {"index, zeroed", TILEWRIGHT_GROUPING_ROW_INDEX, 1300, 136, 416, 7, 0, 1},
      {"valid", TILEWRIGHT_GROUPING_ROWS_VALID, 140, 136, 544, 5, 0, 0},
      {"valid, zeroed", TILEWRIGHT_GROUPING_ROWS_VALID, 300, 264, 160, 4, 1, 1},
  };
  int faults = 0;
  for (Case const& c : cases) {
    faults += wrong(c);
  }
  return faults != 0;
}
