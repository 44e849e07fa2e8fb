// Rounds floats to the BF16 of kernels of the host: see test_host_bf16.py.
#include "tilewright/host.hpp"

#include <cstdio>
#include <cstdlib>

// Prints the bits of the BF16 of each float, whose bits are the arguments.
int main(int count, char** words) {
  for (int i = 1; i < count; ++i) {
    uint32_t const bits = static_cast<uint32_t>(std::strtoul(words[i], nullptr, 16));
    float value;
    std::memcpy(&value, &bits, sizeof value);
    std::printf("%04x\n", tilewright::Bf16(value).bits);
  }
  return 0;
}
