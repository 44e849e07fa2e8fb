// What the first kernel of block-scaled products of groups writes, read as CUTLASS reads it: a generated unit, compiled
// for sm_90a, whose second kernel is a plain product here. D is compared to the bit with a product on the host.
//
// KERNEL is the unit's name, SOURCE its file.
#include SOURCE

#include "grouped_lists.hpp"

namespace {

namespace groups = tilewright::grouped_gemm;
namespace scaled = tilewright::blockscaled_grouped_gemm;
using Factors = scaled::GroupFactors<Gemm>;
using First = groups::Prepare<Gemm, Factors>;
using Lists = groups::Lists<Kernel, Factors>;
using Args = tilewright_blockscaled_grouped_gemm_args;

constexpr int kBlock = Gemm::kBlock;

// NVFP4's factors are E4M3, of these codes; the others' are exponents.
__host__ __device__ float factor_of(int code) {
  if (kBlock == 16) {
    return code == 0x30 ? .5f : code == 0x38 ? 1.f : code == 0x3C ? 1.5f : code == 0x40 ? 2.f : 77.f;
  }
  return ldexpf(1.f, code - 127);
}

struct Read {
  template <class Scale, class Layout>
  static __device__ float factor(Scale const* scales, Layout const& layout, int row, int k) {
    return factor_of(reinterpret_cast<uint8_t const&>(scales[layout(row, k, 0)]));
  }

  static __device__ float factors(Factors::Lists const& lists, int run, int row, int column, int k) {
    return factor(lists.scale_a[run], lists.layout_a[run], row, k) *
           factor(lists.scale_b[run], lists.layout_b[run], column, k);
  }

  static __device__ float alpha(Factors::Lists const& lists, int run) { return lists.alpha[run]; }
};

// Codes of scale factors in the 128x4 layout, by its formula.
struct Scales {
  int64_t columns, rows;  // with padding
  std::vector<uint8_t> codes;

  Scales(int matrices, int64_t of_rows, int k)
      : columns(((k + kBlock - 1) / kBlock + 3) / 4 * 4), rows((of_rows + 127) / 128 * 128) {
    codes.resize(matrices * rows * columns);
    uint8_t const nvfp4[] = {0x30, 0x38, 0x3C, 0x40};
    for (uint8_t& code : codes) {
      code = uint8_t(kBlock == 16 ? nvfp4[draw(4)] : 126 + draw(3));
    }
  }

  float at(int matrix, int64_t row, int k) const {
    int64_t const column = k / kBlock;
    int64_t const place =
        (row / 128 * (columns / 4) + column / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + column % 4;
    return factor_of(codes[matrix * rows * columns + place]);
  }
};

int wrong(Case const& c, bool factors) {
  bool const own = c.grouping == TILEWRIGHT_GROUPING_ROWS_VALID, close = c.alignment % 128 != 0;
  int const matrices = own ? c.groups : 1;
  int64_t const ld_a = c.k + 128, ld_b = c.k, ld_d = c.n + 8;
  std::vector<int> numbers;
  std::vector<int> const listed = groups_of(c, numbers);
  auto const a = elements(matrices * c.m * ld_a, Gemm::kBitsA), b = elements(c.groups * c.n * ld_b, Gemm::kBitsB);
  Scales const of_a(matrices, close ? c.m + 127 * c.groups : c.m, c.k), of_b(c.groups, c.n, c.k);
  std::vector<float> alpha;
  std::vector<int> begins;  // rows of scale factors, the last group's first
  std::vector<int> starts(c.groups);
  int begin = 0;
  for (int group = c.groups - 1; group >= 0; --group) {
    int const before = group == 0 || own ? 0 : numbers[group - 1];
    starts[group] = (before + c.alignment - 1) / c.alignment * c.alignment;
    begins.insert(begins.begin(), begin);
    begin += close ? (numbers[group] - starts[group] + 127) / 128 * 128 : 0;
    alpha.push_back(.5f * float(1 + draw(7)));
  }
  std::vector<D> const poison(matrices * c.m * ld_d, D(77.f));

  Args args{};
  args.m = c.m, args.n = c.n, args.k = c.k, args.groups = c.groups;
  args.a = device(a), args.b = device(b);
  args.scale_a = device(of_a.codes), args.scale_b = device(of_b.codes);
  args.alpha = factors ? device(alpha) : nullptr;
  D* const d = device(poison);
  args.d = d;
  int* const list = device(numbers);
  args.group_of_row = c.grouping == TILEWRIGHT_GROUPING_ROW_INDEX ? list : nullptr;
  args.group_ends = c.grouping == TILEWRIGHT_GROUPING_ENDS ? list : nullptr;
  args.rows_valid = own ? list : nullptr;
  args.scale_begins = close ? device(begins) : nullptr;
  args.ld_a = ld_a, args.ld_b = ld_b, args.ld_d = ld_d;
  args.batch_stride_a = c.m * ld_a, args.batch_stride_b = c.n * ld_b, args.batch_stride_d = c.m * ld_d;
  args.grouping = c.grouping - TILEWRIGHT_GROUPING_ROW_INDEX + TILEWRIGHT_BLOCKSCALED_GROUPING_ROW_INDEX;
  args.row_alignment = c.alignment, args.zero_padding = c.zero;

  auto const call = scaled::as_groups(args);
  uintptr_t bytes = 0;
  Lists::at(call, bytes);
  uintptr_t next = reinterpret_cast<uintptr_t>(device(std::vector<uint8_t>(bytes, 0xFF)));
  Lists lists = Lists::at(call, next);
  lists.factors.caller = scaled::caller(args);
  auto const params = First::params(call, lists);
  groups::prepare<Gemm, Factors><<<unsigned(First::blocks(params)), First::kThreads>>>(params);
  multiply<Read><<<dim3(64, groups::runs_of(call)), 256>>>(params.lists);
  check(cudaDeviceSynchronize(), c.name);
  std::vector<D> actual(poison.size());
  check(cudaMemcpy(actual.data(), d, actual.size() * sizeof(D), cudaMemcpyDeviceToHost), "cudaMemcpy");

  int faults = 0;
  for (int row = 0; row < matrices * c.m; ++row) {
    int const matrix = row / c.m, in = row % c.m, group = listed[row];
    int const scale_row = close && group >= 0 ? begins[group] + in - starts[group] : in;
    for (int column = 0; column < ld_d; ++column) {
      float expected = group < 0 && (close || touched(listed, row, c.m) || c.zero) ? 0.f : 77.f;
      if (column >= c.n) {
        expected = 77.f;
      } else if (group >= 0) {
        expected = 0;
        for (int k = 0; k < c.k; ++k) {
          expected += element(a.data(), row * ld_a + k, Gemm::kBitsA) *
                      element(b.data(), (int64_t(group) * c.n + column) * ld_b + k, Gemm::kBitsB) *
                      of_a.at(matrix, scale_row, k) * of_b.at(group, column, k);
        }
        expected *= factors ? alpha[group] : 1.f;
      }
      faults += !(float(actual[row * ld_d + column]) == float(D(expected)));
    }
  }
  std::printf("%s%s: %d wrong\n", c.name, factors ? ", alpha" : "", faults);
  return faults;
}

}  // namespace

int main() {
  Case const cases[] = {
      {"ends", TILEWRIGHT_GROUPING_ENDS, 1400, 264, 160, 6, 0, 0},
      {"ends, zeroed", TILEWRIGHT_GROUPING_ENDS, 1400, 136, 672, 6, 0, 1},
      {"ends, close", TILEWRIGHT_GROUPING_ENDS, 700, 136, 288, 7, 0, 0, 1},
      {"ends, at multiples of 8", TILEWRIGHT_GROUPING_ENDS, 700, 136, 160, 7, 0, 0, 8},
      {"index", TILEWRIGHT_GROUPING_ROW_INDEX, 1300, 264, 288, 7, 0, 0},
      {"index, zeroed", TILEWRIGHT_GROUPING_ROW_INDEX, 1300, 136, 416, 7, 0, 1},
      {"valid", TILEWRIGHT_GROUPING_ROWS_VALID, 140, 136, 544, 5, 0, 0},
      {"valid, zeroed", TILEWRIGHT_GROUPING_ROWS_VALID, 300, 264, 160, 4, 0, 1},
  };
  int faults = 0;
  for (Case const& c : cases) {
    faults += wrong(c, true);
  }
  faults += wrong(cases[0], false);
  return faults != 0;
}
