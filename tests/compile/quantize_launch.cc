// What the host code of a `quantize` kernel in CuTe-DSL asks of the driver, on a machine without a GPU
// (printing_driver.hpp).
//
//   g++ quantize_launch.cc; quantize_launch X_BITS BOX_ROWS BOX_COLUMNS BY_TMA THREADS SHARED_BYTES
//       X DATA SCALES GLOBAL_SCALE ROWS_VALID M K GROUPS LD_X STRIDE_X LD_DATA STRIDE_DATA LAYOUT PER_ROW BLOCKS SMS
//
// Prints what was asked, a fact to a line; of the kernel's parameters those that are numbers, in order.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "printing_driver.hpp"
#include "tilewright/quantize/cute_dsl_host.hpp"

void print_parameters(void** params) {
  std::printf("parameters");
  for (int i = 0; i < 10; ++i) {
    std::printf(" %lld", static_cast<long long>(*static_cast<int64_t const*>(params[i])));
  }
  for (int i = 10; i < 23; ++i) {
    std::printf(" %d", *static_cast<int32_t const*>(params[i]));
  }
  auto const* extents = static_cast<int32_t const*>(params[24]);
  std::printf("\nextents %d %d %d\n", extents[0], extents[1], extents[2]);
}

int main(int, char** words) {
  auto const number = [&](int index) { return std::strtoll(words[index], nullptr, 0); };
  auto const address = [&](int index) { return reinterpret_cast<void*>(number(index)); };
  static tilewright::Program program("the_kernel", "image");
  tilewright::quantize::cute_dsl::Facts const facts{
      int(number(1)), int(number(2)), int(number(3)), number(4) != 0,
      int(number(5)), int(number(6)), true,           []() -> tilewright::Program& { return program; }};
  tilewright_quantize_args args{};
  args.x = address(7), args.data = address(8), args.scales = address(9);
  args.global_scale = static_cast<float*>(address(10)), args.rows_valid = static_cast<int32_t*>(address(11));
  args.m = number(12), args.k = number(13), args.groups = number(14);
  args.ld_x = number(15), args.batch_stride_x = number(16);
  args.ld_data = number(17), args.batch_stride_data = number(18);
  args.layout = number(19), args.scale_per_row = number(20);
  args.tactic.blocks = number(21), args.tactic.sm_count = number(22);
  std::printf("status %d\n", tilewright::quantize::cute_dsl::launch(facts, &args, nullptr));
}
