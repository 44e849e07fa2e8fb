"""Operands, float64 references and comparisons for GEMM tests on a GPU.

Operands and their product are made once for each (types, shape) and kept: 120 kernels share them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import torch

from tilewright.families.gemm.problem import GATED

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # so that what compares can be tested anywhere
DTYPES = {
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "tf32": torch.float32,
    "s8": torch.int8,
    "f32": torch.float32,
    "s32": torch.int32,
}
# Relative rounding of D, and of the sums: wgmma aligns the products of an instruction and drops what
# falls off; with FP8 it keeps some 14 bits, also of the running sum where accumulation is fast.
OUTPUT_EPSILON = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-23, "e4m3": 2.0**-4, "e5m2": 2.0**-3}
SUM_ERROR = {"bf16": 2e-5, "f16": 2e-5, "tf32": 1e-4, "e4m3": 1e-3, "e5m2": 1e-3}
# Times the square root of k, which is how errors of a sum's additions grow: each drops bits of the sum so
# far. On an H200 1.9e-3 at k 7168 and 3.1e-3 at 16384, of an F32 D: half to two thirds of this.
FAST_SUM_ERROR = 4e-5
ACTIVATION_ERROR = 1e-4
ACTIVATIONS = {
    "none": lambda x: x,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
    "silu_mul": lambda x: torch.nn.functional.silu(_halves(x)[0]) * _halves(x)[1],
}
INTEGER_POISON = 0x5A5A5A5A


def _halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The first and the second half of the columns: a gate, and what it lets through."""
    half = x.shape[-1] // 2
    return x[..., :half], x[..., half:]


def random(shape: tuple[int, ...], dtype: str, seed: int) -> torch.Tensor:
    """Values that the type holds exactly; for tf32 those of 10 bits of mantissa."""
    generator = torch.Generator(DEVICE).manual_seed(seed + math.prod(shape))
    if dtype in ("s8", "s32"):
        bound = 128 if dtype == "s8" else 1000
        return torch.randint(-bound, bound, shape, generator=generator, device=DEVICE, dtype=DTYPES[dtype])
    values = torch.randn(shape, generator=generator, device=DEVICE)
    if dtype == "tf32":
        return (values.view(torch.int32) & ~0x1FFF).view(torch.float32)
    return values.to(DTYPES[dtype])


@functools.cache
def operands(
    a: str, b: str, shape: tuple[int, int, int], batch: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A [m, k], B [k, n] and their product in float64 (exact for integers); `shape` is (m, n, k)."""
    m, n, k = shape
    lead = (batch,) if batch else ()
    left, right = random((*lead, m, k), a, seed=1), random((*lead, k, n), b, seed=2)
    return left, right, left.double() @ right.double()


def poison(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.int8:
        return torch.full(shape, 127, dtype=dtype, device=DEVICE)
    if not dtype.is_floating_point:
        return torch.full(shape, INTEGER_POISON, dtype=dtype, device=DEVICE)
    return torch.full(shape, math.nan, device=DEVICE).to(dtype)


def embed(values: torch.Tensor, row_major: bool = True) -> torch.Tensor:
    """The values within a wider tensor of poison, so that a read beyond the matrix, or the vector, shows."""
    if values.ndim == 1:
        return embed(torch.stack([values, values]))[1]
    if not row_major:
        return embed(values.mT).mT
    unit = 16 // values.element_size()
    rows, columns = values.shape[-2:]
    wide = poison((*values.shape[:-2], rows + 1, -(-columns // unit) * unit + unit), values.dtype)
    inside = wide[..., :rows, :columns]
    inside.copy_(values)
    return inside


@dataclass
class Output:
    """A poisoned D within a wider poisoned tensor, so that a missing and a stray write show."""

    view: torch.Tensor
    _wide: torch.Tensor

    @classmethod
    def make(cls, shape: tuple[int, ...], dtype: str, *, aligned: bool = True) -> Output:
        """`aligned`: rows begin at multiples of 16 bytes."""
        kind = DTYPES[dtype]
        unit = 16 // kind.itemsize
        first = unit if aligned else 1
        width = -(-shape[-1] // unit) * unit + 2 * unit + (0 if aligned else 1)
        wide = poison((*shape[:-2], shape[-2] + 2, width), kind)
        return cls(wide[..., 1 : shape[-2] + 1, first : first + shape[-1]], wide)

    def check_borders(self) -> None:
        written = self.view.clone()
        self.view.copy_(poison(tuple(self.view.shape), self.view.dtype))
        wide = (
            self._wide.float() if self._wide.element_size() == 1 else self._wide
        )  # torch has no isnan of FP8
        untouched = wide.isnan() if wide.dtype.is_floating_point else wide == INTEGER_POISON
        assert bool(untouched.all()), "elements outside of D were written"
        self.view.copy_(written)


def compare(found: torch.Tensor, wanted: torch.Tensor, config: dict[str, Any], k: int, what: str) -> None:
    """Error norm, norm ratio and the largest error of one element; integers exactly."""
    if config["d"] == "s32":
        assert torch.equal(found.double(), wanted), f"{what}: integers differ"
        return
    error = SUM_ERROR[config["a"]]
    if config["fast_accum"]:
        error = max(error, FAST_SUM_ERROR * math.sqrt(k))
    error += ACTIVATION_ERROR if config["activation"] != "none" else 0.0
    epsilon = OUTPUT_EPSILON[config["d"]]
    if config["d"] in ("e4m3", "e5m2"):  # which saturate
        most = torch.finfo(DTYPES[config["d"]]).max
        wanted = wanted.clamp(-most, most)
    # Rounding errors of many elements average out to 0.4 of the largest one.
    tolerance = error + epsilon * (0.5 if wanted.numel() > 1000 else 1.0)
    value = found.double()
    norm = wanted.norm()
    difference = value - wanted
    relative = float(difference.norm() / norm)
    ratio = float(value.norm() / norm)
    root_mean_square = norm / math.sqrt(wanted.numel())
    # The error of a gate is multiplied by what it lets through, which is four times as large in places.
    most = 120 if config["activation"] in GATED else 30
    excess = float((difference.abs() - epsilon * wanted.abs() - most * error * root_mean_square).max())
    numbers = f"error {relative:.2e}, norm ratio {ratio:.6f}, excess of one element {excess:.2e}"
    assert not math.isnan(relative), f"{what}: NaN, an element was not written or poison was read"
    assert relative <= tolerance, f"{what}: {numbers}"
    # Sums lose bits, not their scale: whatever the error, a wrong alpha must show.
    # The roundings of a few elements of FP8 do not cancel out; what an activation leaves near 0 does not
    # count.
    few = float(norm**4 / wanted.pow(4).sum())
    of_few = 2 * epsilon / math.sqrt(few)
    assert abs(ratio - 1) <= min(tolerance, max(5e-3, of_few)), f"{what}: {numbers}"
    assert excess <= 0, f"{what}: {numbers}"
