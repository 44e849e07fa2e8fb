"""Products of quantised operands for tests of `compat.deep_gemm` on a GPU, and the comparison of results."""

from __future__ import annotations

import gemm_reference
import torch

from tilewright.compat import deep_gemm

BLOCK = 128  # elements that share a scale, along one dimension or along both
# DeepGEMM's measure, half the square of a relative error: that of BF16's rounding is 7e-7.
MOST = 1e-5

Scaled = tuple[torch.Tensor, torch.Tensor]  # FP8 elements, and a scale for each block


def by_rows(x: torch.Tensor) -> Scaled:
    """A scale for 128 elements of a row."""
    data, scales = deep_gemm.per_token_cast_to_fp8(x.reshape(-1, x.shape[-1]), False)
    return data.view(x.shape), scales.view(*x.shape[:-1], -1)


def by_blocks(x: torch.Tensor) -> Scaled:
    """A scale for 128 x 128 elements of each matrix of a batch."""
    pairs = [deep_gemm.per_block_cast_to_fp8(matrix, False) for matrix in x]
    data = torch.stack([data.view(torch.uint8) for data, _ in pairs]).view(torch.float8_e4m3fn)
    return data, torch.stack([scales for _, scales in pairs])


def by_columns(x: torch.Tensor) -> Scaled:
    """A scale for 128 elements of a column, the first dimension; the others are columns."""
    data, scales = deep_gemm.per_channel_cast_to_fp8(x.flatten(1), False)
    return data.view(x.shape), scales.view(-1, *x.shape[1:])


def exact(operand: Scaled) -> torch.Tensor:
    """What the elements and their scales say, in float64."""
    data, scales = operand
    values = scales.double()
    for dimension, (count, blocks) in enumerate(zip(data.shape, scales.shape, strict=True)):
        if blocks != count:
            values = values.repeat_interleave(BLOCK, dimension).narrow(dimension, 0, count)
    return data.double() * values


def compare(found: torch.Tensor, wanted: torch.Tensor, k: int, a: str = "e4m3") -> None:
    """Compares D with the exact result for the operands that the kernel reads: by DeepGEMM's measure, and as
    `gemm_reference` does, whose bound holds for each element.

    k: extent of the sums. a: type of the operands.
    """
    d = next(name for name, dtype in gemm_reference.DTYPES.items() if dtype == found.dtype and name != "tf32")
    config = {"a": a, "d": d, "fast_accum": False, "activation": "none"}
    gemm_reference.compare(found, wanted, config, k, f"{a}, k {k}")
    assert deep_gemm.testing.calc_diff(found, wanted) < MOST
