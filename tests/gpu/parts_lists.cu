// What the first kernel of products of groups along k on tcgen05 writes, read as CUTLASS reads it: a generated unit,
// compiled for sm_90a, whose second kernel is a plain product here. D is compared to the bit with a product on the
// host.
//
// KERNEL is the unit's name, SOURCE its file.
#include SOURCE

#include "grouped_lists.hpp"

namespace {

using First = tilewright::grouped_gemm::PrepareParts<Gemm>;
using Lists = tilewright::grouped_gemm::PartLists<Gemm>;
using Args = tilewright_grouped_gemm_args;
constexpr int kUnit = tilewright::grouped_gemm::kPartUnit;

template <class Scale>
__device__ float power(Scale const& scale) {
  return ldexpf(1.f, int(reinterpret_cast<uint8_t const&>(scale)) - 127);
}

// The product of group blockIdx.y, plus C.
__global__ void multiply_parts(Lists lists) {
  int const group = blockIdx.y;
  auto const [m, n, k] = lists.shapes[group];
  for (int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; at < int64_t(m) * n; at += gridDim.x * blockDim.x) {
    int const row = int(at / n), column = int(at % n);
    float sum = 0;
    for (int i = 0; i < k; ++i) {
      float const value = element(lists.a[group], row * int64_t(cute::get<0>(lists.stride_a[group])) + i, 8) *
                          element(lists.b[group], column * int64_t(cute::get<0>(lists.stride_b[group])) + i, 8);
      sum += value * power(lists.scale_a[group][lists.layout_a[group](row, i, 0)]) *
             power(lists.scale_b[group][lists.layout_b[group](column, i, 0)]);
    }
    if (lists.c[group] != nullptr) {
      sum += lists.c[group][row * int64_t(cute::get<0>(lists.stride_c[group])) + column];
    }
    lists.d[group][row * int64_t(cute::get<0>(lists.stride_d[group])) + column] = sum;
  }
}

struct PartsCase {
  char const* name;
  int m, n;
  std::vector<int> sizes;
  int rest;  // of k behind the groups
  bool c, in_place;
};

std::vector<uint32_t> words(int64_t count) {
  std::vector<uint32_t> out(count);
  for (uint32_t& word : out) {
    for (int i = 0; i < 4; ++i) {
      word |= uint32_t(126 + draw(3)) << 8 * i;
    }
  }
  return out;
}

int wrong(PartsCase const& given) {
  int const m = given.m, n = given.n, groups = int(given.sizes.size());
  std::vector<int> begins, counts;
  int k = 0;
  for (int size : given.sizes) {
    begins.push_back(k), counts.push_back(std::max(0, size / kUnit * kUnit));
    k += counts.back();
  }
  k += given.rest;
  int64_t const ld_d = n + 4, ld_c = given.in_place ? ld_d : n + 8, ld_a = (m + 3) / 4 * 4, ld_b = (n + 3) / 4 * 4;
  auto const a = elements(int64_t(m) * k, 8), b = elements(int64_t(n) * k, 8);
  auto const of_a = words(ld_a * (k / kUnit)), of_b = words(ld_b * (k / kUnit));
  std::vector<float> d(groups * m * ld_d, 77.f), c(groups * m * ld_c);
  for (float& value : c) {
    value = float(draw(9) - 4);
  }
  Args args{};
  args.m = m, args.n = n, args.k = k, args.groups = groups, args.grouping = TILEWRIGHT_GROUPING_K_SIZES;
  args.a = device(a), args.b = device(b);
  args.scale_a = reinterpret_cast<float*>(device(of_a)), args.scale_b = reinterpret_cast<float*>(device(of_b));
  args.ld_scale_a = ld_a, args.ld_scale_b = ld_b;
  args.group_k = device(given.sizes);
  args.ld_d = ld_d, args.batch_stride_d = m * ld_d, args.ld_c = ld_c, args.batch_stride_c = m * ld_c;
  float* const out = device(given.in_place ? c : d);
  args.d = out;
  args.c = !given.c ? nullptr : given.in_place ? out : device(c);
  uintptr_t bytes = 0;
  Lists::at(args, bytes);
  uintptr_t next = reinterpret_cast<uintptr_t>(device(std::vector<uint8_t>(bytes, 0xFF)));
  typename First::Params const params{args, Lists::at(args, next)};
  tilewright::grouped_gemm::prepare_parts<Gemm><<<unsigned(First::blocks(args)), First::kThreads>>>(params);
  multiply_parts<<<dim3(64, groups), 256>>>(params.lists);
  check(cudaDeviceSynchronize(), given.name);
  std::vector<float> actual(d.size());
  check(cudaMemcpy(actual.data(), out, actual.size() * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");

  auto const factor = [](std::vector<uint32_t> const& of, int64_t ld, int row, int place) {
    return std::ldexp(1.f, int(of[place / kUnit * ld + row] >> place % kUnit / 32 * 8 & 255) - 127);
  };
  int faults = 0;
  for (int group = 0; group < groups; ++group) {
    for (int row = 0; row < m; ++row) {
      for (int column = 0; column < ld_d; ++column) {
        int64_t const at = (int64_t(group) * m + row) * ld_d + column;
        float const before = given.in_place ? c[at] : 77.f;
        float sum = given.c ? c[(int64_t(group) * m + row) * ld_c + column] : 0.f;
        for (int i = 0; i < counts[group]; ++i) {
          int const place = begins[group] + i;
          int64_t const begin = int64_t(begins[group]);
          sum += element(a.data(), begin * m + int64_t(row) * counts[group] + i, 8) *
                 element(b.data(), begin * n + int64_t(std::min(column, n - 1)) * counts[group] + i, 8) *
                 factor(of_a, ld_a, row, place) * factor(of_b, ld_b, std::min(column, n - 1), place);
        }
        faults += actual[at] != (column < n ? sum : before);
      }
    }
  }
  std::printf("%s: %d wrong\n", given.name, faults);
  return faults;
}

}  // namespace

int main() {
  PartsCase const cases[] = {
      {"plain", 200, 136, {128, 384, 256}, 0, false, false},
      {"groups without k", 129, 260, {0, 256, 0, 0, 640, 0}, 0, false, false},
      {"with C", 300, 132, {256, 0, 128}, 0, true, false},
      {"in place", 64, 136, {384, 128, 0}, 0, true, true},
      {"no multiples, and k that no group has", 140, 136, {200, -5, 300}, 256, true, false},
      {"long k", 136, 136, {4096, 1152, 0, 2304}, 0, false, false},
  };
  int faults = 0;
  for (PartsCase const& given : cases) {
    faults += wrong(given);
  }
  return faults != 0;
}
