"""Operands, poisoned tensors and comparisons of block-scaled tests on a GPU, over `tilewright.reference`.

Operands and their exact product are made once for each (formats, shape) and kept: all kernels share them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from tilewright import context, reference, scale_factors
from tilewright.declarations.table import KernelRecord
from tilewright.errors import NotBuiltError
from tilewright.families.blockscaled_gemm.mainloops import is_hopper
from tilewright.families.blockscaled_gemm.measuring import op_of
from tilewright.families.blockscaled_gemm.problem import OUTPUTS
from tilewright.families.gemm.op import ACTIVATED
from tilewright.formats.dtypes import dtype_of
from tilewright.formats.types import per_byte

PAIRS = {
    "nvfp4": ("nvfp4", "nvfp4"),
    "mxfp4": ("mxfp4", "mxfp4"),
    "mxfp8": ("mxfp8", "mxfp8"),
    "mxfp8 x mxfp4": ("mxfp8", "mxfp4"),
    "mxfp4 x mxfp8": ("mxfp4", "mxfp8"),
}
BYTES_OF_DTYPE = {name: dtype_of(name) for name in OUTPUTS if name != "nvfp4"}
SAME = ("nvfp4", "mxfp4", "mxfp8")  # the pairs of which there are kernels for every float D
FLOATS = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
POISON = 0xFF  # bytes of it are NaN in every float type, and -6, -6 in E2M1
OPERAND_POISON = 0x7F  # NaN in E4M3 and E5M2; 6 and -6 in E2M1, which has no NaN
UNIT = 64  # bytes: every kernel takes rows that begin at multiples of it


@dataclass(frozen=True)
class Operands:
    """What an op takes, the exact product in float64, and what its errors are relative to."""

    formats: tuple[str, str]
    k: int
    a: torch.Tensor
    b: torch.Tensor
    a_scales: torch.Tensor
    b_scales: torch.Tensor
    exact: torch.Tensor
    magnitude: torch.Tensor

    @property
    def call(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.a, self.b, self.a_scales, self.b_scales

    def multiply(self, *arguments: Any, **options: Any) -> Any:
        """The op of these formats; `options` may replace an operand."""
        given = {
            name: options.pop(name, tensor)
            for name, tensor in zip(("a", "b", "a_descale", "b_descale"), self.call, strict=True)
        }
        if options.get("out_dtype") == torch.float8_e4m3fn:
            options.setdefault("out_scaled", "out_descale" in options)
        return op_of(*self.formats)(*given.values(), *arguments, **options)

    def multiply_built(self, *arguments: Any, **options: Any) -> Any:
        """As `multiply`; skips the test where the kernel that is selected is not built."""
        try:
            return self.multiply(*arguments, **options)
        except NotBuiltError as error:
            pytest.skip(error.message)

    def check(self, found: torch.Tensor, what: str = "", **wanted: Any) -> None:
        """Compares a D with what `wanted` says of it."""
        exact, magnitude = self.wanted(**wanted)
        assert found.shape == exact.shape, what
        compare(found, exact, magnitude, self.k, what)

    def wanted(
        self,
        alpha: float = 1.0,
        c: torch.Tensor | None = None,
        beta: float = 0.0,
        *,
        bias: torch.Tensor | None = None,
        activation: str = "none",
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """activation(alpha * product + beta * c + bias), and the magnitude of its terms."""
        exact, magnitude = alpha * self.exact, abs(alpha) * self.magnitude
        for addend in (None if c is None else beta * c.double(), None if bias is None else bias.double()):
            if addend is not None:
                exact, magnitude = exact + addend, magnitude + addend.abs()
        return ACTIVATED[activation](exact), magnitude


def extents(shape: tuple[int, int, int]) -> str:
    """The extents as they stand in the name of a test."""
    return "x".join(map(str, shape))


def of_pair(pair: str, shape: tuple[int, int, int], batch: int = 0) -> Operands:
    """The operands of one of PAIRS."""
    return operands(*PAIRS[pair], shape, batch)


def routed() -> tuple[KernelRecord, ...]:
    """The kernels of this GPU."""
    current = context.current()
    return current.registry.route("blockscaled_gemm", current.device(0))


def some_kernel(pair: str, d: str = "bf16", c: str = "none") -> KernelRecord:
    """A kernel of this GPU that is built; skips the test where there is none."""
    expected = (*PAIRS[pair], d, c)
    for record in routed():
        config = record.config
        actual = (config["a"], config["b"], config["d"], config["c"])
        if actual == expected and context.current().registry.is_built(record):
            return record
    pytest.skip(f"no kernel of {pair}, D {d}, C {c} is built for this GPU")


def cutting_tactics(pair: str) -> list[str | None]:
    """What is selected, and where the thread blocks of a cluster cut k, that."""
    record = some_kernel(pair)
    return [None, f"{record.name}@splits=4"] if is_hopper(record) else [None]


def quantized(
    rows: int, k: int, name: str, batch: tuple[int, ...] = (), seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """A matrix [.., rows, k] and its scales, which differ from row to row and from block to block."""
    generator = torch.Generator("cuda").manual_seed(1000003 * seed + 1009 * rows + k)
    value = torch.randn((*batch, rows, k), generator=generator, device="cuda")
    blocks = (*batch, rows, -(-k // 16))
    spread = torch.randint(-3, 4, blocks, generator=generator, device="cuda").repeat_interleave(16, -1)
    return reference.quantize(torch.ldexp(value, spread[..., :k]), name)


@functools.cache
def operands(a: str, b: str, shape: tuple[int, int, int], batch: int = 0) -> Operands:
    """Operands of formats a and b; `shape` is (m, n, k), k in elements."""
    m, n, k = shape
    lead = (batch,) if batch else ()
    left, left_scales = quantized(m, k, a, lead, seed=1)
    right, right_scales = quantized(n, k, b, lead, seed=2)
    return known(a, b, left, right.mT, left_scales, right_scales, k)


def known(  # noqa: PLR0917 (as the ops take them)
    a: str,
    b: str,
    left: torch.Tensor,
    right: torch.Tensor,
    left_scales: torch.Tensor,
    right_scales: torch.Tensor,
    k: int,
) -> Operands:
    """Operands made elsewhere, with their product."""
    call = (left, right, left_scales, right_scales)
    exact = reference.product(*call, a, format_b=b)
    return Operands((a, b), k, *call, exact, reference.magnitude(*call, a, format_b=b))


def fill_padding(  # noqa: PLR0917
    scales: torch.Tensor,
    extents: tuple[int, int],
    block: int,
    part: str,
    byte: int,
    filled: Sequence[int] | None = None,
) -> torch.Tensor:
    """Scales of a matrix of `extents` whose padding (of "rows", or of "columns") is `byte`, not the zeros
    that are promised to the kernels.

    filled: the rows whose padding columns are filled; None: all.
    """
    rows, k = extents
    columns = scale_factors.columns(k, block)
    shape = scale_factors.padded_shape(rows, k, block)
    wide = torch.zeros(shape, dtype=torch.uint8, device=scales.device)
    wide[:rows, :columns] = scale_factors.unswizzle(scales, rows, k, block).view(torch.uint8)
    if part == "rows":
        wide[rows:] = byte
    else:
        wide[list(range(rows) if filled is None else filled), columns:] = byte
    return scale_factors.swizzle(wide).view(scales.dtype)


def excuse_nan(
    found: torch.Tensor, plain: torch.Tensor, rows: Sequence[int], columns: Sequence[int]
) -> torch.Tensor:
    """D with `plain`'s elements where it is NaN in one of these rows or columns; NaN elsewhere stays."""
    reached = torch.zeros(found.shape, dtype=torch.bool, device=found.device)
    reached[..., list(rows), :] = True
    reached[..., list(columns)] = True
    return torch.where(reached & found.isnan(), plain, found)


def embed(values: torch.Tensor, poison: int = OPERAND_POISON) -> torch.Tensor:
    """The same [.., rows, columns] within a wider tensor of poison, so that a read beyond it shows."""
    size = values.element_size()
    rows, columns = values.shape[-2:]
    pitch = -(-columns * size // UNIT) * UNIT + UNIT
    wide = torch.full((*values.shape[:-2], rows + 1, pitch), poison, dtype=torch.uint8, device="cuda")
    inside = wide.view(values.dtype)[..., :rows, :columns]
    as_bytes(inside).copy_(as_bytes(values))
    return inside


class Output:
    """A poisoned D within a wider poisoned tensor, so that a missing and a stray write show."""

    def __init__(self, shape: tuple[int, ...], d: str) -> None:
        dtype = BYTES_OF_DTYPE.get(d, torch.uint8)
        columns = shape[-1] // per_byte(d)
        self._inside = (..., slice(1, -1), slice(UNIT, UNIT + columns * dtype.itemsize))
        pitch = -(-columns * dtype.itemsize // UNIT) * UNIT + 2 * UNIT
        wide = (*shape[:-2], shape[-2] + 2, pitch)
        self._wide = torch.full(wide, POISON, dtype=torch.uint8, device="cuda")
        self.view = self._wide[self._inside].view(dtype)

    def poison(self) -> None:
        """As it was made."""
        self._wide.fill_(POISON)

    def check_borders(self) -> None:
        border = self._wide.clone()
        border[self._inside] = POISON
        assert bool((border == POISON).all()), "elements outside of D were written"


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """One-byte elements as uint8, which torch copies and compares whatever they mean; others as they are."""
    return tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor


def same_bits(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether two results are the same, NaN for NaN."""
    return bool(torch.equal(x.contiguous().view(torch.uint8), y.contiguous().view(torch.uint8)))


def compare(
    found: torch.Tensor,
    exact: torch.Tensor,
    magnitude: torch.Tensor,
    k: int,
    what: str = "",
    *,
    d: str | None = None,
    global_scale: float = 1.0,
) -> None:
    """Cosine, norm ratio within 1 %, and each element within its bound. A quantised D (`d`) comes
    dequantised. FP8 without scale factors saturates."""
    fp8 = found.itemsize == 1
    if fp8:
        exact = exact.clamp(-torch.finfo(found.dtype).max, torch.finfo(found.dtype).max)
    result = reference.compare(
        found, exact, magnitude, d, slack=reference.accumulation_slack(k), global_scale=global_scale
    )
    assert result.passes(cosine=0.99 if d or fp8 else 0.999), f"{what}: {result}"
