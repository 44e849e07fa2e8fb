"""The one form of quantised weights, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm
from typing import Literal

import torch

from tilewright.errors import ArgumentError
from tilewright.weight_formats import WHOLE_ROW
from tilewright.weights.code_formats import CODE_FORMATS, E2M1_MAGNITUDES, CodeFormat, FormatName
from tilewright.weights.tensors import (
    check_device,
    check_dtype,
    check_expert,
    check_factors,
    check_integer,
    check_name,
    check_shape,
)

N_MULTIPLE, K_MULTIPLE = 8, 32
"""Kernels read weights whose n and k are multiples of these."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class QuantizedWeight:
    """A weight W [n, k] of a product a @ W.T, or a stack of experts [experts, n, k], one code to a byte.

    An element is value(code) * scale * global_scale, in real numbers:

    | format | value(code) | scales |
    |---|---|---|
    | `int4`, `int8` | code - zero; without `zeros`, zero is 8 or 128 | float16, bfloat16, float32 |
    | `mxfp4` | E2M1 | UE8M0: 2^(byte - 127), byte 255 is NaN; groups of 32 |
    | `nvfp4` | E2M1 | E4M3, bytes 0x7F and 0xFF are NaN; groups of 16 |
    | `e4m3` | E4M3, codes 0x7F and 0xFF are NaN | float16, bfloat16, float32 |

    Subnormal codes and scales have their values, and are not flushed to zero. A scale of 0 makes zeros, whose
    sign is the product's; a NaN or infinite scale follows IEEE's rules (0 times infinity is NaN).

    Attributes:
        codes: uint8 [..., n, k]; below 16 for formats of 4 bits.
        scales: [..., n, ceil(k/group)], or [..., n, 1] for a group of -1.
        group: elements along k that share a scale (and a zero point); -1 for one scale a row.
        format: the name of the format.
        zeros: uint8 of the scales' shape, or None. Only `int4` and `int8` have zero points.
        global_scale: a factor of the whole weight, or a tuple with one for each expert. float32 holds each.

    Raises:
        ArgumentError: fields that do not go together.
    """

    codes: torch.Tensor
    scales: torch.Tensor
    group: int
    format: FormatName
    zeros: torch.Tensor | None = None
    global_scale: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        kind = self._kind()
        check_dtype("codes", self.codes, (torch.uint8,))
        if self.codes.ndim not in {2, 3} or 0 in self.codes.shape:
            shape = tuple(self.codes.shape)
            raise ArgumentError("codes", f"expected [n, k] or [experts, n, k], none of them 0, got {shape}")
        check_dtype("scales", self.scales, kind.scales)
        columns = self._columns(kind)
        shape = (*self.codes.shape[:-1], columns)
        check_shape("scales", self.scales, shape, f"one for each {self.group} of {self.k}")
        check_device("scales", self.scales, "codes", self.codes.device)
        if self.zeros is not None:
            if kind.middle is None:
                raise ArgumentError("zeros", f"{self.format} has no zero points, expected None")
            check_dtype("zeros", self.zeros, (torch.uint8,))
            check_shape("zeros", self.zeros, shape, "that of the scales")
            check_device("zeros", self.zeros, "codes", self.codes.device)
        for argument, tensor in (("codes", self.codes), ("zeros", self.zeros)):
            if kind.bits == 4 and tensor is not None and int(tensor.max()) > 15:
                raise ArgumentError(argument, f"{int(tensor.max())}, expected 0 to 15 for {self.format}")
        check_factors(self.global_scale, self.experts)

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.codes.shape))
        scales = str(self.scales.dtype).removeprefix("torch.")
        zeros = "" if self.zeros is None else ", zero points"
        return f"QuantizedWeight({self.format} [{shape}], group {self.group}, {scales} scales{zeros})"

    @property
    def n(self) -> int:
        """Rows of W: outputs of the layer."""
        return int(self.codes.shape[-2])

    @property
    def k(self) -> int:
        """Columns of W: inputs of the layer."""
        return int(self.codes.shape[-1])

    @property
    def experts(self) -> int | None:
        """The experts of a stack; None for one weight."""
        return int(self.codes.shape[0]) if self.codes.ndim == 3 else None

    def expert(self, index: int) -> QuantizedWeight:
        """One weight of a stack; its tensors are views."""
        check_expert(index, self.experts)
        factor = self.global_scale[index] if isinstance(self.global_scale, tuple) else self.global_scale
        zeros = None if self.zeros is None else self.zeros[index]
        codes, scales = self.codes[index], self.scales[index]
        return replace(self, codes=codes, scales=scales, zeros=zeros, global_scale=factor)

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """The elements [..., n, k] in float64 (the default) or float32.

        float64 holds every element exactly, because its factors have at most 8, 4 and 24 significant bits.
        The exception is a float32 scale beside a global scale: their product is rounded. float32 is float64's
        result, rounded to nearest.
        """
        values = self._values() * self._spread(self.scales.double())
        if self.global_scale != 1.0:
            factors = torch.tensor(self.global_scale, dtype=torch.float64, device=values.device)
            values *= factors.reshape(-1, 1, 1) if factors.ndim else factors
        return values if dtype is None else values.to(dtype)

    def shard(self, axis: Literal["n", "k"], start: int, stop: int) -> QuantizedWeight:
        """The part of n or k from `start` to `stop`, for tensor parallelism; tensors are views.

        Bounds along n are multiples of 8; along k, of 32 and of the group. The end of the axis is legal too.

        Raises:
            ArgumentError: a bound is not legal; the message names the nearest ones.
        """
        check_name("axis", axis, ("n", "k"))
        extent = self.n if axis == "n" else self.k
        step = N_MULTIPLE if axis == "n" else lcm(K_MULTIPLE, max(self.group, 1))
        for argument, bound in (("start", start), ("stop", stop)):
            _check_bound(argument, bound, axis, extent, step)
        if start >= stop:
            raise ArgumentError("stop", f"{stop}, expected more than the start, {start}")
        if axis == "n":
            zeros = None if self.zeros is None else self.zeros[..., start:stop, :]
            codes, scales = self.codes[..., start:stop, :], self.scales[..., start:stop, :]
            return replace(self, codes=codes, scales=scales, zeros=zeros)
        codes = self.codes[..., start:stop]
        if self.group == WHOLE_ROW:
            return replace(self, codes=codes)
        groups = slice(start // self.group, -(-stop // self.group))
        zeros = None if self.zeros is None else self.zeros[..., groups]
        return replace(self, codes=codes, scales=self.scales[..., groups], zeros=zeros)

    def _kind(self) -> CodeFormat:
        check_name("format", self.format, CODE_FORMATS)
        return CODE_FORMATS[self.format]

    def _columns(self, kind: CodeFormat) -> int:
        check_integer("group", self.group)
        if kind.group is not None and self.group != kind.group:
            raise ArgumentError("group", f"{self.group}, expected {kind.group} for {self.format}")
        if self.group == WHOLE_ROW:
            return 1
        if self.group <= 0:
            raise ArgumentError("group", f"{self.group}, expected 1 or more, or -1 for one scale a row")
        return -(-self.k // self.group)

    def _values(self) -> torch.Tensor:
        """The values of the codes, in float64."""
        kind = self._kind()
        if kind.middle is None and kind.bits == 8:
            return self.codes.view(torch.float8_e4m3fn).double()
        if kind.middle is None:
            values = [*E2M1_MAGNITUDES, *(-x for x in E2M1_MAGNITUDES)]
            return torch.tensor(values, dtype=torch.float64, device=self.codes.device)[self.codes.int()]
        if self.zeros is None:
            return self.codes.double() - kind.middle
        return self.codes.double() - self._spread(self.zeros.double())

    def _spread(self, of_groups: torch.Tensor) -> torch.Tensor:
        """What each group has [..., n, columns], for each element [..., n, k]; [..., n, 1] stays."""
        if self.group == WHOLE_ROW:
            return of_groups
        return of_groups.repeat_interleave(self.group, dim=-1)[..., : self.k]


def _check_bound(argument: str, bound: int, axis: str, extent: int, step: int) -> None:
    check_integer(argument, bound)
    if not 0 <= bound <= extent:
        raise ArgumentError(argument, f"{bound}, expected 0 to {extent}, the extent of {axis}")
    if bound % step and bound != extent:
        below = bound // step * step
        above = min(below + step, extent)
        raise ArgumentError(
            argument,
            f"{bound} of {axis}, expected a multiple of {step}",
            hint=f"the nearest legal bounds are {below} and {above}",
        )
