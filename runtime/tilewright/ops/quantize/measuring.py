"""Operands, a peer and checks with which the quantising ops are measured."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from tilewright import blockwise_scales, reference, scale_factors
from tilewright.device import DeviceProperties
from tilewright.errors import WrongResultError
from tilewright.ops.common import measuring
from tilewright.ops.common.formats import as_bytes, dtype_of
from tilewright.ops.common.measuring import Peer
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.quantize import op
from tilewright.ops.quantize.interface import INTERFACE
from tilewright.ops.quantize.problem import BLOCK, BLOCKWISE, M_MAJOR, X_TYPES, Problem

X_DTYPES = {name: dtype_of(name) for name in X_TYPES}
ERROR = "as the reference says; it differs from x by {:.2e} of the norm"  # what `check` answers
# Of elements, and of scales, that fast arithmetic or a fused kernel may put one step away from the reference.
MOST_DIFFERING = 0.002
GLOBAL_SCALE = 448.0  # of numbers that seldom exceed 6
EPSILON = 1e-6
_CHECKED_ELEMENTS = 2**24
_CHUNK = 128  # rows that are checked together: a block of 128x128 is whole


def call_of(problem: Problem) -> Callable[..., Any]:
    """The public op that computes the problem, with its options."""
    name = "fp8_blockwise" if problem.format in BLOCKWISE else problem.format.removesuffix("_e5m2")
    public = getattr(op, f"{problem.direction}_{name}")
    options = {
        "block": BLOCK[problem.format],
        "layout": problem.layout,
        "scale_layout": problem.layout,
        "scale_type": "ue8m0" if problem.layout == "packed" else "float32",
        "activation": "silu_mul" if problem.fusion == "silu_mul" else "none",
        "fast": not problem.exact,
        "dtype": dtype_of(problem.x if problem.direction == "dequantize" else problem.format),
    }
    taken = inspect.signature(public).parameters
    return functools.partial(public, **{one: each for one, each in options.items() if one in taken})


@dataclass
class Operands:
    """One set of operands: x, data and scales, of which two are written or one."""

    problem: Problem
    x: torch.Tensor | None
    global_scale: torch.Tensor | None = None
    weight: torch.Tensor | None = None
    data: torch.Tensor | None = None
    scales: torch.Tensor | None = None

    def poison(self) -> None:
        """Fills what is written, once it is made, with what no kernel writes."""
        written = [self.x] if self.problem.direction == "dequantize" else [self.data, self.scales]
        for tensor in written:
            if tensor is not None:
                padded = tensor is self.scales and self.problem.layout in M_MAJOR
                measuring.poison(blockwise_scales.with_padding(tensor) if padded else tensor)

    def call(self, tactic: Tactic | None = None) -> Any:
        """Runs the op, into what its first call has made."""
        given: dict[str, Any] = {"tactic": tactic}
        if self.global_scale is not None:
            given["global_scale"] = self.global_scale
        if self.problem.direction == "dequantize":
            self.x = call_of(self.problem)(self.data, self.scales, out=self.x, **given)
            return self.x
        if self.weight is not None:
            given |= {"rms_weight": self.weight, "eps": EPSILON}
        given |= {"out": self.data, "out_scales": self.scales}
        self.data, self.scales = call_of(self.problem)(self.x, **given)
        return self.data

    def check(self) -> float:
        """The norm of what quantising lost, relative to x, over rows spread evenly.

        Raises WrongResultError where a bit differs from the reference; of fast and fused kernels, where more
        than `MOST_DIFFERING` of the elements or scales do.
        """
        assert self.x is not None
        assert self.data is not None
        assert self.scales is not None
        problem = self.problem
        if problem.direction == "dequantize":
            return self._check_back(self.x, self.data, self.scales)
        rows = self._rows(self.x.device)
        value = self._value(_take(self.x, rows))
        scale = self._scale_of(rows, self.x)
        data, scales = _reference(value, problem, scale)
        found = _take(self.data, rows), _plain(self.scales, problem, rows)
        allowed = 0.0 if problem.exact and problem.fusion == "none" else MOST_DIFFERING
        for what, mine, wanted in (("elements", found[0], data), ("scales", found[1], scales)):
            share = _differing(mine, wanted)
            if not share <= allowed:
                raise WrongResultError(
                    f"{problem}: {share:.3g} of the {what} differ from the reference; {allowed:g} may"
                )
        back = _read_back(found[0], found[1], problem, scale)
        return float((back - value.double()).norm() / value.double().norm())

    def _check_back(self, x: torch.Tensor, data: torch.Tensor, scales: torch.Tensor) -> float:
        rows = self._rows(x.device)
        exact = _read_back(
            _take(data, rows), _plain(scales, self.problem, rows), self.problem, self._scale_of(rows, data)
        )
        found = x[..., rows, :].double()
        error = (found - exact).abs()
        bound = exact.abs() * torch.finfo(x.dtype).eps + torch.finfo(x.dtype).smallest_normal
        if not bool((error <= bound).all()):
            raise WrongResultError(
                f"{self.problem}: an element is off by {float((error / bound).amax()):.3g} steps"
            )
        return float(error.norm() / exact.norm())

    def _scale_of(self, rows: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor | None:
        """The global scale of some rows of x, or of data."""
        if self.global_scale is None or self.problem.global_scale != "row":
            return self.global_scale
        return self.global_scale.reshape(matrix.shape[:-1])[..., rows]

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
        if self.weight is not None:
            return reference.rms_norm(x, self.weight, EPSILON)
        return x.float()

    @functools.cached_property
    def copied(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Two buffers, of which one is copied to the other: together the bytes that the problem moves."""
        room = torch.empty(2, self.problem.bytes // 2, dtype=torch.uint8, device="cuda")
        return room[0], room[1]


def _take(matrix: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return as_bytes(matrix)[..., rows, :].view(matrix.dtype)


def _reference(
    value: torch.Tensor, problem: Problem, scale: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Data, and scales as a row has them."""
    if problem.format.startswith("fp8"):
        kind = "ue8m0" if problem.layout == "packed" else "float32"
        layout = "row_major" if kind == "float32" else "packed"
        return reference.quantize_fp8_blockwise(value, BLOCK[problem.format], kind, layout)  # type: ignore[arg-type]
    return reference.quantize(value, problem.format, scale, "linear")


def _plain(scales: torch.Tensor, problem: Problem, rows: torch.Tensor) -> torch.Tensor:
    """The scales of some rows, as `_reference` has them."""
    if problem.format == "fp8_128x128" and problem.layout == "row_major":
        return scales[..., rows[::_CHUNK] // _CHUNK, :]
    if problem.format.startswith("fp8"):
        return scales[..., rows, :]
    block = BLOCK[problem.format][1]
    plain = scale_factors.unswizzle(scales, problem.m, problem.k, block, problem.layout)  # type: ignore[arg-type]
    return _take(plain, rows)


def _differing(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The share of elements that are not the same bits; of FP4, of pairs of them."""
    first, second = as_bytes(found), as_bytes(wanted)
    if first.dtype == torch.float32:
        first, second = first.contiguous().view(torch.int32), second.contiguous().view(torch.int32)
    return float((first != second).double().mean())


def _read_back(
    data: torch.Tensor, scales: torch.Tensor, problem: Problem, scale: torch.Tensor | None
) -> torch.Tensor:
    if problem.format.startswith("fp8"):
        return reference.dequantize_fp8_blockwise(data, scales, BLOCK[problem.format])
    return reference.dequantize(
        data, scales.contiguous(), problem.format, global_scale=scale, layout="linear"
    )


def make_operands(problem: Problem, device: DeviceProperties, seed: int = 0) -> list[Operands]:
    """As many sets as keep L2 cold when they are taken in turn: copies of one, which lie elsewhere."""
    generator = torch.Generator("cuda").manual_seed(seed)
    x = measuring.random_matrix(INTERFACE.matrices["x"], problem, generator)
    weight = torch.ones(problem.k, device="cuda", dtype=x.dtype) if problem.fusion == "rmsnorm" else None
    count = {"none": 0, "tensor": 1, "row": problem.groups * problem.m}[problem.global_scale]
    scale = torch.full((count,), GLOBAL_SCALE, device="cuda") if count else None
    first = Operands(problem, x, scale, weight)
    if problem.direction == "dequantize":
        made = Operands(replace(problem, direction="quantize", exact=True), x, scale)
        made.call()
        first = Operands(problem, None, scale, None, made.data, made.scales)
    sets = measuring.copies(first, measuring.sets(problem, device))
    for one in sets:
        one.call()  # makes what is written, ahead of a capture
    return sets


def peer(problem: Problem) -> Peer[Operands] | None:
    """A copy that moves as many bytes."""
    return "a copy of as many bytes", copy_as_much


def copy_as_much(operands: Operands) -> None:
    """Copies so that memory moves as many bytes as for the problem."""
    source, target = operands.copied
    target.copy_(source)
