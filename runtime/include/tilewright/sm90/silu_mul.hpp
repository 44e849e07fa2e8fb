// silu(gate) * up, the formula of gated activations (gated.hpp), by the fast exponential and the fast division.
// quantize/rows.hpp has a function of its own, which can be exact, too.
#pragma once

namespace tilewright::sm90 {

// __fdividef(x, y) is 0 where y exceeds 2^126. There silu(gate) is below 1e-36, so 0 is close enough.
__device__ __forceinline__ float silu_mul(float gate, float up) { return __fdividef(gate, 1.0f + __expf(-gate)) * up; }

}  // namespace tilewright::sm90
