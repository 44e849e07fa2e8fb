"""Operands, a peer and checks with which the quantising ops are measured."""

from __future__ import annotations

import functools
import inspect
from dataclasses import replace
from typing import Any

import torch

from tilewright import reference, scale_factors
from tilewright.errors import WrongResultError
from tilewright.families.quantize import op
from tilewright.families.quantize.interface import INTERFACE
from tilewright.families.quantize.problem import BLOCK, BLOCKWISE, Problem
from tilewright.formats.dtypes import as_bytes, dtype_of
from tilewright.tools import measuring
from tilewright.tools.measuring import Peer

# The share of elements, and of scales, that approximate arithmetic or a fused kernel may round differently
# from the reference.
MOST_DIFFERING = 0.002
# Largest relative error of a fused kernel's FP32 scales: its sums and exponentials differ from torch's.
_SCALE_ERROR = 2.0**-18
GLOBAL_SCALE = 448.0  # for numbers that seldom exceed 6
_CHECKED_ELEMENTS = 2**24
_CHUNK = 128  # rows that are checked together: a block of 128x128 is whole


class Operands(measuring.Operands):
    """A call of one of the ops that quantise or read back."""

    error_text = "equal to the reference; the quantisation error is {:.2e} of the norm"

    def check(self) -> float:
        """The norm of the quantisation error, relative to x, over rows spread evenly.

        Raises WrongResultError if a bit differs from the reference. In fast and fused kernels,
        `MOST_DIFFERING` of the elements and of the scales may differ; a fused kernel's FP32 scales may be off
        by rounding.
        """
        problem = self.problem
        if problem.direction == "dequantize":
            return self._check_back()
        rows = self._rows(self.x.device)
        value = self._value(_take(self.x, rows))
        scale = self._scale_of(rows, self.x)
        data, scales = _reference(value, problem, scale)
        actual = _take(self.out, rows), _plain(self.out_scales, problem, rows)
        fused = problem.fusion != "none"
        allowed = 0.0 if problem.exact and not fused else MOST_DIFFERING
        for what, tensor, expected in (("elements", actual[0], data), ("scales", actual[1], scales)):
            rounded = fused and expected.dtype == torch.float32
            share = _far_apart(tensor, expected) if rounded else _differing(tensor, expected)
            if not share <= allowed:
                raise WrongResultError(
                    f"{problem}: {share:.3g} of the {what} differ from the reference; at most {allowed:g} may"
                )
        back = _read_back(*actual, problem, scale)
        return float((back - value.double()).norm() / value.double().norm())

    def _check_back(self) -> float:
        rows, info = self._rows(self.out.device), torch.finfo(self.out.dtype)
        data, scales = _take(self.data, rows), _plain(self.scales, self.problem, rows)
        exact = _read_back(data, scales, self.problem, self._scale_of(rows, self.data))
        error = (self.out[..., rows, :].double() - exact).abs()
        bound = exact.abs() * info.eps + info.smallest_normal
        if not bool((error <= bound).all()):
            raise WrongResultError(
                f"{self.problem}: an element is off by {float((error / bound).amax()):.3g} steps"
            )
        return float(error.norm() / exact.norm())

    def _scale_of(self, rows: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor | None:
        """The global scale of some rows of x, or of data."""
        scale: torch.Tensor | None = vars(self).get("global_scale")  # only NVFP4's ops have one
        if scale is None or self.problem.global_scale != "row":
            return scale
        return scale.reshape(matrix.shape[:-1])[..., rows]

    def _rows(self, device: torch.device) -> torch.Tensor:
        problem = self.problem
        chunks = -(-problem.m // _CHUNK)
        taken = max(1, min(chunks, _CHECKED_ELEMENTS // (_CHUNK * problem.k * problem.groups)))
        first = torch.arange(taken, device=device) * chunks // taken * _CHUNK
        rows = (first[:, None] + torch.arange(_CHUNK, device=device)).flatten()
        return rows[rows < problem.m]

    def _value(self, x: torch.Tensor) -> torch.Tensor:
        if self.problem.fusion == "silu_mul":
            return reference.silu_mul(x)
        if self.rms_weight is not None:
            return reference.rms_norm(x, self.rms_weight, self.eps)
        return x.float()

    @functools.cached_property
    def copied(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Two buffers, of which one is copied to the other: together the bytes that the problem moves."""
        room = torch.empty(2, self.problem.bytes // 2, dtype=torch.uint8, device=self.out.device)
        return room[0], room[1]


def _take(matrix: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return as_bytes(matrix)[..., rows, :].view(matrix.dtype)


def _reference(
    value: torch.Tensor, problem: Problem, scale: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Data, and scales in rows without padding."""
    if problem.format.startswith("fp8"):
        kind = "ue8m0" if problem.layout == "packed" else "float32"
        layout = "row_major" if kind == "float32" else "packed"
        return reference.quantize_fp8_blockwise(value, BLOCK[problem.format], kind, layout)  # type: ignore[arg-type]
    return reference.quantize(value, problem.format, scale, "linear", four_over_six=problem.four_over_six)


def _plain(scales: torch.Tensor, problem: Problem, rows: torch.Tensor) -> torch.Tensor:
    """The scales of some rows, laid out as `_reference` does."""
    if BLOCK[problem.format][0] > 1 and problem.layout == "row_major":
        return scales[..., rows[::_CHUNK] // _CHUNK, :]
    if problem.format.startswith("fp8"):
        return scales[..., rows, :]
    block = BLOCK[problem.format][1]
    plain = scale_factors.unswizzle(scales, problem.m, problem.k, block, problem.layout)  # type: ignore[arg-type]
    return _take(plain, rows)


def _differing(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """The share of elements (in FP4, of pairs of elements) whose bits differ."""
    first, second = as_bytes(actual), as_bytes(expected)
    if first.dtype == torch.float32:
        first, second = first.contiguous().view(torch.int32), second.contiguous().view(torch.int32)
    return float((first != second).double().mean())


def _far_apart(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """The share of FP32 numbers that differ by more than `_SCALE_ERROR`. NaN equals NaN."""
    near = ((actual - expected).abs() <= expected.abs() * _SCALE_ERROR) | (actual == expected)
    return float((~(near | (actual.isnan() & expected.isnan()))).double().mean())


def _read_back(
    data: torch.Tensor, scales: torch.Tensor, problem: Problem, scale: torch.Tensor | None
) -> torch.Tensor:
    if problem.format.startswith("fp8"):
        return reference.dequantize_fp8_blockwise(data, scales, BLOCK[problem.format])
    return reference.dequantize(
        data, scales.contiguous(), problem.format, global_scale=scale, layout="linear"
    )


def make(problem: Problem, generator: torch.Generator) -> Operands:
    """One set, on the generator's device. For reading back, our op quantises the data."""
    device, tensors = generator.device, {}
    if count := {"none": 0, "tensor": 1, "row": problem.groups * problem.m}[problem.global_scale]:
        tensors["global_scale"] = torch.full((count,), GLOBAL_SCALE, device=device)
    x = measuring.random_matrix(INTERFACE.matrices["x"], problem, generator)
    if problem.direction == "dequantize":
        quantized = operands(replace(problem, direction="quantize", exact=True), x=x, **tensors)
        quantized.call()
        return operands(problem, data=quantized.out, scales=quantized.out_scales, **tensors)
    if problem.fusion == "rmsnorm":
        tensors["rms_weight"] = torch.ones(problem.k, device=device, dtype=x.dtype)
    return operands(problem, x=x, **tensors)


def operands(problem: Problem, **tensors: Any) -> Operands:
    """A call of the public op that computes the problem, on these tensors."""
    name = "fp8_blockwise" if problem.format in BLOCKWISE else problem.format.removesuffix("_e5m2")
    public = getattr(op, f"{problem.direction}_{name}")
    options = {
        "block": BLOCK[problem.format],
        "layout": problem.layout,
        "scale_layout": problem.layout,
        "scale_type": "ue8m0" if problem.layout == "packed" else "float32",
        "activation": "silu_mul" if problem.fusion == "silu_mul" else "none",
        "fast": not problem.exact,
        "four_over_six": problem.four_over_six,
        "dtype": dtype_of(problem.x if problem.direction == "dequantize" else problem.format),
    }
    taken = inspect.signature(public).parameters
    taken_options = {name: option for name, option in options.items() if name in taken}
    return Operands(problem, public, **taken_options, **tensors)


def peer(problem: Problem) -> Peer | None:
    """A copy that moves the same number of bytes."""
    return "a copy of as many bytes", copy_as_much


def copy_as_much(operands: Operands) -> None:
    """Copies, so that memory moves the same number of bytes as for the problem."""
    source, target = operands.copied
    target.copy_(source)
