// A kernel that copies what `load_wide` reads: 32 bytes a thread, which begin `offset` bytes into x.
#include "tilewright/quantize/wide_loads.hpp"

extern "C" __global__ void __launch_bounds__(32) copy_words(char const* x, uint32_t* out, long long offset, int count) {
  uint32_t words[8];
  int const thread = threadIdx.x;
  tilewright::quantize::load_wide(x + offset + thread * 32, words, thread < count);
  for (int i = 0; i < 8; ++i) {
    out[thread * 8 + i] = words[i];
  }
}
