// Division by a number that the host knows, as a multiplication on the device. A division takes about 40 clocks there
// (of 64 bits ten times that), and the first load of a tile would wait for it.
#pragma once

#include <cstdint>

namespace tilewright::sm90 {

// Divides numbers from 0 to 2^31 - 1.
class Divisor {
 public:
  Divisor() = default;

  explicit Divisor(int divisor) : divisor_(divisor) {
    // Granlund and Montgomery, "Division by invariant integers using multiplication" (1994), theorem 4.2.
    int bits = 0;
    while ((int64_t{1} << bits) < divisor) {
      ++bits;
    }
    multiplier_ = static_cast<uint32_t>(((uint64_t{1} << (31 + bits)) + divisor - 1) / divisor);
    shift_ = bits;
  }

  __device__ __forceinline__ int divide(int number) const {
    return static_cast<int>((uint64_t{static_cast<uint32_t>(number)} * multiplier_) >> (31 + shift_));
  }

  __host__ __device__ int divisor() const { return divisor_; }

 private:
  int divisor_ = 1;
  uint32_t multiplier_ = 1u << 31;
  int shift_ = 0;
};

}  // namespace tilewright::sm90
