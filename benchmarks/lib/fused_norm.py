"""The addition to the residual stream and the RMSNorm after it in one kernel, as serving engines compute them
(vLLM's fused_add_rms_norm).

In a module of its own without `annotations` of the future: Triton reads the kernel's annotations.
"""

import torch
import triton
import triton.language as tl

_EPSILON = 1e-6


@triton.jit
def _add_rms_norm(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    x, residual, weight, total, d, columns, epsilon, block: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * columns
    column = tl.arange(0, block)
    inside = column < columns
    value = tl.load(x + row + column, mask=inside, other=0.0).to(tl.float32)
    value += tl.load(residual + row + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(total + row + column, value, mask=inside)
    factor = 1.0 / tl.sqrt(tl.sum(value * value) / columns + epsilon)
    normed = value * factor * tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(d + row + column, normed, mask=inside)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """x + residual of contiguous matrices [m, n], and its RMSNorm."""
    total, d = torch.empty_like(x), torch.empty_like(x)
    m, columns = x.shape
    block = triton.next_power_of_2(columns)
    _add_rms_norm[m,](x, residual, weight, total, d, columns, _EPSILON, block, num_warps=8)
    return total, d
