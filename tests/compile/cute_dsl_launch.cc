// What the host code of a `gemm` kernel in CuTe-DSL asks of the driver, on a machine without a GPU
// (printing_driver.hpp). The kernel is one of 128x256x64 in clusters of 2x1; if k is split, it is alone and swaps
// operands, and the second launch does not split k.
//
//   g++ cute_dsl_launch.cc; cute_dsl_launch M N K BATCH LD_A BATCH_STRIDE_B RASTER SWIZZLE SM_COUNT SPLITS [FAULT]
//
// Prints what was asked, a fact to a line. FAULT: "load", "cluster", "encode" or "launch" fails.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "printing_driver.hpp"
#include "tilewright/gemm/cute_dsl_host.hpp"

void print_parameters(void** params) {
  auto const words = [&](int index) { return static_cast<int32_t const*>(params[index]); };
  for (int tensor : {1, 3, 5}) {
    std::printf("extents %d %d %d\n", words(tensor)[0], words(tensor)[1], words(tensor)[2]);
  }
  std::printf("alpha %g beta %g\n", *static_cast<float*>(params[9]), *static_cast<float*>(params[10]));
  std::printf("k_tiles %d blocks %d %d %d swizzle %d down %d\n", *words(13), *words(14), *words(15), *words(16),
              *words(17), *words(18));
}

int main(int, char** words) {
  auto const number = [&](int index) { return std::atoi(words[index]); };
  fault = words[11] != nullptr ? words[11] : "";
  tilewright_gemm_args args{};
  args.m = number(1), args.n = number(2), args.k = number(3), args.batch = number(4);
  args.ld_a = number(5), args.ld_b = args.k, args.ld_c = args.ld_d = args.n;
  args.batch_stride_a = int64_t(args.m) * args.ld_a, args.batch_stride_b = number(6);
  args.batch_stride_d = int64_t(args.m) * args.n;
  args.a = reinterpret_cast<void*>(0x100), args.b = reinterpret_cast<void*>(0x200);
  args.d = reinterpret_cast<void*>(0x300);
  args.alpha = 1.5f;
  args.tactic.raster = number(7), args.tactic.swizzle = number(8), args.tactic.sm_count = number(9);
  int const splits = args.tactic.splits = number(10);
  static tilewright::Program program("the_kernel", "image");
  tilewright::gemm::cute_dsl::Facts facts{128,
                                          256,
                                          64,
                                          2,
                                          1,
                                          64,
                                          384,
                                          230400,
                                          TILEWRIGHT_ADDEND_BF16,
                                          true,
                                          []() -> tilewright::Program& { return program; }};
  if (splits != 1) {
    facts.cluster_m = 1, facts.swapped = facts.splits = true;
  }
  int statuses[2];
  for (int& status : statuses) {
    status = tilewright::gemm::cute_dsl::launch(facts, &args, nullptr);
    args.tactic.splits = 1;
  }
  args.tactic.splits = splits;
  context_number = 2;
  int const elsewhere = tilewright::gemm::cute_dsl::launch(facts, &args, nullptr);
  std::printf("status %d %d %d loads %d launches %d\n", statuses[0], statuses[1], elsewhere, loads, launches);
}
