// silu(gate) * up, the formula of gated activations (gated.hpp).
#pragma once

namespace tilewright::sm90 {

// Beyond 2^126 the divisor is infinite or the quotient counts as 0, where silu is below 1e-36.
__device__ __forceinline__ float silu_mul(float gate, float up) { return __fdividef(gate, 1.0f + __expf(-gate)) * up; }

}  // namespace tilewright::sm90
