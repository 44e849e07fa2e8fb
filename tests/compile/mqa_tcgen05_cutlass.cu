// What CUTLASS tells the tensor core of sm_100 where `mqa_logits` tells it the same: see test_mqa_tcgen05.py.
#include <cstdio>
#include <cute/atom/mma_traits_sm100.hpp>
#include <cute/tensor.hpp>

using namespace cute;

template <int RowBytes, class Atom>
void shared(char const* name, Atom atom) {
  auto const rows =
      make_tensor(make_smem_ptr(static_cast<uint8_t*>(nullptr)), tile_to_shape(atom, Shape<_128, Int<RowBytes>>{}));
  std::printf("%s %llx\n", name, static_cast<unsigned long long>(uint64_t(UMMA::make_umma_desc<UMMA::Major::K>(rows))));
}

template <int Columns>
void fp8() {
  auto const found =
      UMMA::make_instr_desc<float_e4m3_t, float_e4m3_t, float, 128, Columns, UMMA::Major::K, UMMA::Major::K>();
  std::printf("fp8_%d %x\n", Columns, uint32_t(found));
}

int main() {
  shared<128>("rows128", UMMA::Layout_K_SW128_Atom<uint8_t>{});
  shared<64>("rows64", UMMA::Layout_K_SW64_Atom<uint8_t>{});
  shared<32>("rows32", UMMA::Layout_K_SW32_Atom<uint8_t>{});
  fp8<16>(), fp8<128>(), fp8<256>();
  auto found = UMMA::make_instr_desc_block_scaled<float_e2m1_t, float_e2m1_t, float, float_ue8m0_t, 128, 128,
                                                  UMMA::Major::K, UMMA::Major::K>();
  for (int first : {0, 2}) {
    found.a_sf_id_ = found.b_sf_id_ = first;
    std::printf("fp4_128_%d %x\n", first, uint32_t(found));
  }
  // Scale factors of 128 rows, 128 elements of each: bytes of a column in the lower 18 bits, lanes above.
  auto const scales = UMMA::tmem_sf_frg<float_ue8m0_t, 32, 1, true>::make(Shape<Shape<_128, Shape<_32, _2>>, _1, _2>{});
  for (int row = 0; row < 128; ++row) {
    for (int quarter = 0; quarter < 4; ++quarter) {
      for (int block = 0; block < 4; ++block) {
        int const address = scales.layout()(make_coord(
            make_coord(make_coord(make_coord(row % 32, row / 32), quarter), make_coord(0, block % 2)), 0, block / 2));
        std::printf("scale_%d_%d_%d %x\n", row, quarter, block, address);
      }
    }
  }
}
