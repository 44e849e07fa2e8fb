// Whether the host code of a block-scaled kernel in CuTe-DSL takes a product, on a machine without a GPU
// (printing_driver.hpp).
//
//   g++ blockscaled_rows.cc; blockscaled_rows TILE_N SWAPPED M N
//
// The tile is 128xTILE_Nx256 of NVFP4. Prints the status of can_implement.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "printing_driver.hpp"
#include "tilewright/blockscaled_gemm/cute_dsl_host.hpp"

void print_parameters(void**) {}

int main(int, char** words) {
  auto const number = [&](int index) { return std::atoi(words[index]); };
  static tilewright::Program program("the_kernel", "image");
  tilewright::blockscaled_gemm::cute_dsl::Facts facts{};
  facts.tile_m = 128, facts.tile_n = number(1), facts.tile_k = 256, facts.cluster_m = facts.cluster_n = 1;
  facts.bits = 4, facts.block = 16, facts.bytes_d = 2, facts.k_stages = 1, facts.store_bytes = 16;
  facts.swapped = number(2) != 0;
  facts.program = []() -> tilewright::Program& { return program; };
  tilewright_blockscaled_gemm_appended_args appended{};
  auto& args = appended.base;
  args.m = number(3), args.n = number(4), args.k = 512, args.batch = 1;
  args.ld_a = args.ld_b = args.k, args.ld_d = args.n;
  args.a = args.b = args.d = reinterpret_cast<void*>(0x100);
  args.scale_a = args.scale_b = reinterpret_cast<void*>(0x100);
  args.tactic.splits = args.tactic.swizzle = 1, args.tactic.sm_count = 148;
  std::printf("%d\n", tilewright::blockscaled_gemm::cute_dsl::can_implement(facts, &appended));
}
