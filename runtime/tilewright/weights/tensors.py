"""Checks of tensors, and codes out of the words and bytes that hold several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

import torch

from tilewright.errors import ArgumentError, ArgumentTypeError

_SHOWN = 60  # characters of a name in a message
_MOST_FLOAT = torch.finfo(torch.float32).max
_MOST_BITS = 63  # of an int64, beside the sign


def check_dtype(argument: str, tensor: torch.Tensor, dtypes: Sequence[torch.dtype]) -> None:
    """Raises ArgumentTypeError unless it is a tensor of one of the dtypes, with strides."""
    if not isinstance(tensor, torch.Tensor):
        raise ArgumentTypeError(argument, f"expected a tensor, got {type(tensor).__name__}")
    if tensor.layout != torch.strided or tensor.is_nested:
        kind = "nested" if tensor.is_nested else str(tensor.layout)
        raise ArgumentTypeError(argument, f"expected a tensor with strides, got one that is {kind}")
    if tensor.dtype not in dtypes:
        names = " or ".join(str(x).removeprefix("torch.") for x in dtypes)
        raise ArgumentTypeError(argument, f"expected a tensor of {names}, got {tensor.dtype}")


def check_readable(argument: str, tensor: torch.Tensor, dtype: torch.dtype) -> None:
    """Raises an error unless it is a tensor of the dtype whose numbers can be read."""
    check_dtype(argument, tensor, (dtype,))
    if tensor.is_meta or tensor._is_zerotensor():
        raise ArgumentError(argument, "it has no memory, expected a tensor with numbers")


def check_kind(argument: str, value: object, kind: type) -> None:
    """Raises ArgumentTypeError unless the value is of the class."""
    if not isinstance(value, kind):
        raise ArgumentTypeError(argument, f"expected a {kind.__name__}, got {type(value).__name__}")


def check_integer(argument: str, value: object) -> None:
    """Raises an error unless the value is an integer of at most 64 bits."""
    if type(value) is not int:
        raise ArgumentTypeError(argument, f"expected an int, got {type(value).__name__}")
    if value.bit_length() > _MOST_BITS:
        raise ArgumentError(argument, f"an integer of {value.bit_length()} bits, expected fewer than 64")


def check_bits(bits: object) -> None:
    """Raises an error unless `bits`, those of a code, are 4 or 8."""
    check_integer("bits", bits)
    if bits not in {4, 8}:
        raise ArgumentError("bits", f"{bits}, expected 4 or 8")


def check_name(argument: str, value: object, names: Iterable[str]) -> None:
    """Raises ArgumentError unless the value is one of the names."""
    if not isinstance(value, str):
        raise ArgumentTypeError(argument, f"expected a str, got {type(value).__name__}")
    if value not in names:
        shown = ascii(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}...")
        raise ArgumentError(argument, f"{shown}, expected one of {', '.join(names)}")


def check_expert(index: int, experts: int | None) -> None:
    """Raises ArgumentError unless a stack of `experts` weights has one of this index."""
    check_integer("index", index)
    if experts is None:
        raise ArgumentError("index", f"{index}, expected a stack of experts, got one weight")
    if not 0 <= index < experts:
        raise ArgumentError("index", f"{index}, expected one of {experts} experts")


def check_shape(argument: str, tensor: torch.Tensor, expected: Sequence[int], meaning: str) -> None:
    """Raises ArgumentError unless the tensor has the expected shape; `meaning` says where that comes from."""
    if tuple(tensor.shape) != tuple(expected):
        raise ArgumentError(
            argument, f"expected shape {tuple(expected)} ({meaning}), got {tuple(tensor.shape)}"
        )


def check_matrix(argument: str, tensor: torch.Tensor, shape: str) -> None:
    """Raises ArgumentError unless the tensor has two dimensions, none of them 0."""
    if tensor.ndim != 2 or 0 in tensor.shape:
        raise ArgumentError(argument, f"expected {shape}, none of them 0, got {tuple(tensor.shape)}")


def check_device(argument: str, tensor: torch.Tensor, of: str, device: torch.device) -> None:
    """Raises ArgumentError unless the tensor is on the device of the tensor `of`."""
    if tensor.device != device:
        raise ArgumentError(argument, f"it is on {tensor.device}, {of} on {device}; expected the same device")


def check_factors(global_scale: object, experts: int | None) -> None:
    """Raises an error unless a global scale is a number, or a tuple with one for each expert."""
    factors = global_scale if isinstance(global_scale, tuple) else (global_scale,)
    for factor in factors:
        if not isinstance(factor, (int, float)):
            kind = type(factor).__name__
            raise ArgumentTypeError("global_scale", f"expected a number or a tuple of numbers, got {kind}")
        if _MOST_FLOAT < abs(factor) < inf:
            raise ArgumentError(
                "global_scale", f"beyond the range of float32, which ends at {_MOST_FLOAT:.4g}"
            )
    if isinstance(global_scale, tuple) and len(factors) != experts:
        raise ArgumentError("global_scale", f"{len(factors)} factors, expected {experts}: one an expert")


def check_block(block: object) -> None:
    """Raises an error unless it is the rows and columns of a block: two positive integers."""
    if not isinstance(block, (tuple, list)):
        raise ArgumentTypeError("block", f"expected (rows, columns), got {type(block).__name__}")
    if len(block) != 2:
        raise ArgumentError("block", f"expected (rows, columns), got {len(block)} elements")
    for extent in block:
        check_integer("block", extent)
    if min(block) < 1:
        raise ArgumentError("block", f"expected positive rows and columns, got {tuple(block)}")


def octets_of(words: torch.Tensor) -> torch.Tensor:
    """The bytes of each word: uint8 [..., bytes of a word]."""
    # A copy: one dimension of any stride, or of a single word, has no view as bytes.
    flat = words.reshape(-1).clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8).view(*words.shape, words.element_size())


def fields(words: torch.Tensor, bits: int) -> torch.Tensor:
    """The fields of 4 or 8 bits of int32 words or bytes [..., words] as uint8 [..., fields], lowest first.

    The words are read as bytes, in the little-endian order of every machine that CUDA runs on.
    """
    octets = octets_of(words).flatten(-2)
    return octets if bits == 8 else torch.stack((octets & 15, octets >> 4), dim=-1).flatten(-2)


def fields_of_columns(words: torch.Tensor, bits: int) -> torch.Tensor:
    """Fields of words [rows, n] that hold successive rows, as uint8 [n, rows * fields of a word]."""
    return fields(words.t().contiguous(), bits)


def group_size(argument: str, k: int, columns: int, group: int | None) -> int:
    """The elements along k that share a scale, where `columns` scales serve k of them; -1 for one scale.

    Raises:
        ArgumentError: `group` does not fit, or is None where k is no multiple of `columns`.
    """
    if group is None:
        if k % columns:
            raise ArgumentError(
                "group", f"not given, expected the checkpoint's group size: {k} of k have {columns} scales"
            )
        group = k // columns
    check_integer("group", group)
    if columns == 1 and (group == -1 or group >= k):
        return -1
    if group <= 0 or -(-k // group) != columns:
        raise ArgumentError(
            argument, f"{columns} scales for {k} of k in groups of {group}, expected {-(-k // max(group, 1))}"
        )
    return group
