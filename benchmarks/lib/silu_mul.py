"""silu(gate) * up of a merged product in one kernel, as serving engines compute it (vLLM's silu_and_mul).

In a module of its own without `annotations` of the future: Triton reads the kernel's annotations.
"""

import torch
import triton
import triton.language as tl

_BLOCK = 1024  # columns of a thread block


@triton.jit
def _silu_mul(gate_up, d, columns, block: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    inside = column < columns
    gate = tl.load(gate_up + row * 2 * columns + column, mask=inside).to(tl.float32)
    up = tl.load(gate_up + row * 2 * columns + columns + column, mask=inside).to(tl.float32)
    tl.store(d + row * columns + column, gate / (1.0 + tl.exp(-gate)) * up, mask=inside)


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """D [m, n] of a contiguous matrix [m, 2 n]: gate's columns, then up's."""
    m, columns = gate_up.shape[0], gate_up.shape[1] // 2
    d = gate_up.new_empty(m, columns)
    _silu_mul[m, triton.cdiv(columns, _BLOCK)](gate_up, d, columns, _BLOCK)
    return d
