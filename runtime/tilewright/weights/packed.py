"""A weight in the packed layout that kernels read (`tilewright.weight_layout`), also as tensors of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import torch

from tilewright import weight_formats, weight_layout
from tilewright.errors import ArgumentError
from tilewright.weights.tensors import (
    check_device,
    check_dtype,
    check_expert,
    check_factors,
    check_integer,
    check_kind,
    check_name,
    check_readable,
    check_shape,
)

PackedFormat = Literal["int4", "int4_zp", "mxfp4", "nvfp4", "int8", "e4m3"]
# Their numbers in `packed_layout` are their places. New ones are added at the end.
_FORMATS: tuple[PackedFormat, ...] = ("int4", "int4_zp", "mxfp4", "nvfp4", "int8", "e4m3")
_DTYPES = (None, torch.bfloat16, torch.float16)
_LAYOUT_FIELDS = 6

SCALE_DTYPES = {"mxfp4": torch.float8_e8m0fnu, "nvfp4": torch.float8_e4m3fn}
"""The dtype of scales where the format says it; the other formats' scales have the activations'."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PackedWeight:
    """A weight [n, k], or a stack of experts, in the packed layout (docs/packed_weights.md).

    Attributes:
        weight: uint8 [..., ceil(n/64), ceil(k/128) * 4096], of codes of 8 bits * 8192, contiguous: the packed
            codes.
        scale: uint8 [..., ceil(n/64), ceil(k/128) * bytes], contiguous: the packed scales and zero points.
        n, k: rows and columns of the weight.
        format: `int4`, `int4_zp` (with zero points), `mxfp4`, `nvfp4`, `int8` or `e4m3`.
        group: elements along k that share a scale; -1 for one scale a row.
        dtype: bfloat16 or float16, the type of the scales and so of the activations; None for `mxfp4` and
            `nvfp4`, whose scales have types of their own.
        global_scale: a factor of the whole weight, or a tuple with one for each expert.
        version: of the layout.
        largest_scale: of MXFP4, the largest scale that is not NaN; read from `scale` where it is None. None
            for other formats.
        gated: whether rows of gate and up are packed in turn (`pack_weight(..., gated=True)`): a weight of
            products with `activation="silu_mul"`, and of no others.
        group_factors: float32 [experts] on the weight's device: the global scales where they differ between
            experts, else None. It is made once: a call that copied them to a GPU would wait for the copy, and
            no CUDA graph could capture it.

    Raises:
        ArgumentError: fields that do not go together, or another version of the layout.
    """

    weight: torch.Tensor
    scale: torch.Tensor
    n: int
    k: int
    format: PackedFormat
    group: int
    dtype: torch.dtype | None = None
    global_scale: float | tuple[float, ...] = 1.0
    version: int = weight_layout.VERSION
    largest_scale: float | None = None
    gated: bool = False
    group_factors: torch.Tensor | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        _check_version("version", self.version)
        for argument, extent in (("n", self.n), ("k", self.k)):
            check_integer(argument, extent)
        weight_layout.check_extents(self.n, self.k)
        check_kind("gated", self.gated, bool)
        if self.gated:
            check_halves(self.n)
        check_name("format", self.format, _FORMATS)
        check_integer("group", self.group)
        layout = weight_formats.FORMATS[self.format]
        if self.group not in layout.groups:
            raise ArgumentError("group", f"{self.group}, expected one of {layout.groups} for {self.format}")
        if (self.dtype is not None) != layout.typed or self.dtype not in _DTYPES:
            kind = "bfloat16 or float16" if layout.typed else "None"
            raise ArgumentError("dtype", f"{self.dtype}, expected {kind} for {self.format}")
        packed = {"weight": self.weight, "scale": self.scale}
        shapes = weight_formats.packed_shapes(self.n, self.k, self.format, self.group)
        for (argument, tensor), shape in zip(packed.items(), shapes, strict=True):
            check_dtype(argument, tensor, (torch.uint8,))
            meaning = f"{self.n} x {self.k} of {self.format}, group {self.group}"
            check_shape(argument, tensor, (*self.weight.shape[:-2][:1], *shape), meaning)
            if not tensor.is_contiguous():
                raise ArgumentError(argument, f"strides {tensor.stride()}, expected a contiguous tensor")
        check_device("scale", self.scale, "weight", self.weight.device)
        check_factors(self.global_scale, self.experts)
        is_readable = self.scale.numel() > 0 and not self.scale.is_meta
        if self.format == "mxfp4" and self.largest_scale is None and is_readable:
            finite = self.scale.where(self.scale < 255, 0)
            object.__setattr__(self, "largest_scale", 2.0 ** (int(finite.max()) - 127))
        if isinstance(self.global_scale, tuple):
            factors = torch.tensor(self.global_scale, dtype=torch.float32, device=self.weight.device)
            object.__setattr__(self, "group_factors", factors)

    def __repr__(self) -> str:
        shape = ", ".join(str(x) for x in (self.experts, self.n, self.k) if x is not None)
        dtype = "" if self.dtype is None else f", {str(self.dtype).removeprefix('torch.')} scales"
        gated = ", gated" if self.gated else ""
        kind = f"{self.format} [{shape}], group {self.group}{dtype}{gated}"
        return f"PackedWeight({kind}, version {self.version})"

    @property
    def experts(self) -> int | None:
        """The experts of a stack; None for one weight."""
        return int(self.weight.shape[0]) if self.weight.ndim == 3 else None

    @property
    def nbytes(self) -> int:
        """The bytes of the packed codes and scales."""
        return int(self.weight.numel() + self.scale.numel())

    def expert(self, index: int) -> PackedWeight:
        """One weight of a stack; its tensors are views."""
        check_expert(index, self.experts)
        factor = self.global_scale[index] if isinstance(self.global_scale, tuple) else self.global_scale
        return replace(self, weight=self.weight[index], scale=self.scale[index], global_scale=factor)

    def to(self, device: torch.device | str | int) -> PackedWeight:
        """The same weight on a device."""
        return replace(self, weight=self.weight.to(device), scale=self.scale.to(device))

    def state_dict(self, prefix: str = "") -> dict[str, torch.Tensor]:
        """The weight as plain tensors, for safetensors, `torch.save` or a module's state.

        | name | tensor |
        |---|---|
        | `packed_weight`, `packed_scale` | `weight` and `scale` |
        | `global_scale` | float32 [], or [experts] where they differ |
        | `packed_layout` | int64 [6]: version, n, k, format, group, dtype; of a gated weight [7]: and 1 |

        The format is 0 for `int4`, 1 for `int4_zp`, 2 for `mxfp4`, 3 for `nvfp4`, 4 for `int8` and 5 for
        `e4m3`; the dtype is 0 for None, 1 for bfloat16 and 2 for float16.
        """
        numbers = (_FORMATS.index(self.format), self.group, _DTYPES.index(self.dtype), *[1] * self.gated)
        return {
            f"{prefix}packed_weight": self.weight,
            f"{prefix}packed_scale": self.scale,
            f"{prefix}global_scale": torch.tensor(self.global_scale, dtype=torch.float32),
            f"{prefix}packed_layout": torch.tensor((self.version, self.n, self.k, *numbers)),
        }

    @classmethod
    def from_state_dict(cls, tensors: Mapping[str, torch.Tensor], prefix: str = "") -> PackedWeight:
        """The weight that `state_dict` wrote; tensors besides its four are not looked at.

        Raises:
            ArgumentError: a tensor is missing, or the layout is of another version.
        """
        names = ("packed_weight", "packed_scale", "global_scale", "packed_layout")
        missing = [prefix + name for name in names if prefix + name not in tensors]
        if missing:
            raise ArgumentError(
                "tensors", f"expected {', '.join(prefix + x for x in names)}, got no {missing[0]}"
            )
        weight, scale, factors, layout = (tensors[prefix + name] for name in names)
        check_readable(f"{prefix}packed_layout", layout, torch.int64)
        check_readable(f"{prefix}global_scale", factors, torch.float32)
        if layout.ndim != 1 or not len(layout):
            shape = tuple(layout.shape)
            raise ArgumentError(
                f"{prefix}packed_layout", f"expected {_LAYOUT_FIELDS} numbers, got shape {shape}"
            )
        version, *fields = layout.tolist()
        _check_version(f"{prefix}packed_layout", version)
        if len(layout) not in {_LAYOUT_FIELDS, _LAYOUT_FIELDS + 1}:
            raise ArgumentError(
                f"{prefix}packed_layout", f"expected {_LAYOUT_FIELDS} numbers, got {len(layout)}"
            )
        n, k, format, group, dtype, *gated = fields
        if not (0 <= format < len(_FORMATS) and 0 <= dtype < len(_DTYPES) and gated in ([], [0], [1])):
            raise ArgumentError(f"{prefix}packed_layout", f"expected known numbers, got {layout.tolist()}")
        factor = factors.item() if factors.ndim == 0 else tuple(factors.tolist())
        return cls(weight, scale, n, k, _FORMATS[format], group, _DTYPES[dtype], factor, gated=gated == [1])


def check_halves(n: int) -> None:
    """Raises ArgumentError unless n rows are two halves that can be packed in turn."""
    if n % (2 * weight_formats.GATED_ROWS):
        raise ArgumentError(
            "n", f"{n}, expected a multiple of 16 for a gated weight: 8 rows of gate and 8 of up in turn"
        )


def _check_version(argument: str, version: int) -> None:
    check_integer(argument, version)
    if version != weight_layout.VERSION:
        raise ArgumentError(
            argument,
            f"version {version} of the packed layout, expected {weight_layout.VERSION}",
            hint="pack the weight again from its checkpoint, with this release of tilewright",
        )
