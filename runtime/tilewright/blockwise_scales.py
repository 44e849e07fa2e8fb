"""Where the scales of FP8 matrices in blocks of 128 columns lie: what DeepGEMM's kernels read.

With `row` and `column` of a scale of a matrix of m rows, `columns` = ceil(k/128), and ld = m rounded up to a
multiple of 4, so that TMA can read from each column's start:

    row_major  float32  row*columns + column          (in blocks of 128x128: row of blocks)
    m_major    float32  column*ld + row
    packed     int32    (column/4)*ld + row, whose byte column%4 (from the lowest) is a UE8M0 scale

`m_major` and `packed` tensors are views [..., m, columns or words] of strides (1, ld); what follows m in
memory, and the bytes after the last column, are 0. Matrices of a batch follow one another.

Functions take tensors of torch on any device; importing this module imports no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Literal, get_args

from tilewright.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    import torch

LayoutName = Literal["row_major", "m_major", "packed"]
LAYOUTS: tuple[LayoutName, ...] = get_args(LayoutName)
BLOCK = 128
ROW_MULTIPLE = 4  # of ld: 16 bytes
SCALES_PER_WORD = 4


def leading(rows: int) -> int:
    """ld: elements between columns of m_major and packed scales."""
    return -(-rows // ROW_MULTIPLE) * ROW_MULTIPLE


def words(columns: int) -> int:
    """int32 words that the scales of a row take."""
    return -(-columns // SCALES_PER_WORD)


def allocate(shape: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """An m_major tensor [..., m, columns or words] of any values, with memory for its padding."""
    import torch  # noqa: PLC0415 (importing tilewright must not import torch)

    *batch, rows, columns = shape
    return torch.empty((*batch, columns, leading(rows)), dtype=dtype, device=device)[..., :rows].mT


def lies_m_major(scales: torch.Tensor) -> bool:
    """Whether a tensor [..., m, columns] has the strides of an m_major one."""
    _check("scales", scales)
    *batch, rows, columns = scales.shape
    strides = _strides(batch, columns, leading(rows))
    pairs = zip(scales.shape, scales.stride(), strides, strict=True)
    return scales.numel() == 0 or all(extent == 1 or stride == want for extent, stride, want in pairs)


def with_padding(scales: torch.Tensor, argument: str = "scales") -> torch.Tensor:
    """The memory of an m_major tensor [..., m, columns] with its padding, as [..., columns, ld].

    Raises:
        ArgumentError: names `argument`; the strides are others, or the storage ends before the padding does.
    """
    _check(argument, scales)
    *batch, rows, columns = scales.shape
    ld = leading(rows)
    held = scales.untyped_storage().nbytes() // scales.element_size() - scales.storage_offset()
    required = prod(batch) * columns * ld
    strides = _strides(batch, columns, ld)
    if scales.numel() and (not lies_m_major(scales) or held < required):
        raise ArgumentError(
            argument,
            f"strides {scales.stride()} and memory for {held} scales, expected strides {strides} and "
            f"{required}: "
            f"columns that begin at multiples of {ROW_MULTIPLE} rows",
        )
    return scales.as_strided((*batch, columns, ld), (*strides[:-2], ld, 1))


def m_major(scales: torch.Tensor) -> torch.Tensor:
    """A copy of scales [..., m, columns] that lies m_major, its padding 0."""
    _check("scales", scales)
    allocated = allocate(scales.shape, dtype=scales.dtype, device=scales.device)
    with_padding(allocated).zero_()
    return allocated.copy_(scales)


def pack(codes: torch.Tensor) -> torch.Tensor:
    """UE8M0 scales [..., m, columns] of any 1-byte dtype as packed ones: int32 [..., m, words], m_major."""
    import torch  # noqa: PLC0415

    _check("codes", codes)
    if codes.element_size() != 1:
        raise ArgumentTypeError("codes", f"{codes.dtype}, expected a dtype of one byte")
    *batch, rows, columns = codes.shape
    wide = torch.zeros(
        (*batch, rows, words(columns) * SCALES_PER_WORD), dtype=torch.uint8, device=codes.device
    )
    wide[..., :columns] = codes.view(torch.uint8)
    return m_major(wide.view(torch.int32) if columns else wide.int())  # torch views no rows of 0 bytes


def unpack(packed: torch.Tensor, columns: int) -> torch.Tensor:
    """Undoes `pack`: float8_e8m0fnu [..., m, columns]."""
    import torch  # noqa: PLC0415

    _check("packed", packed, "words")
    if packed.dtype != torch.int32 or packed.shape[-1] != words(columns):
        raise ArgumentError(
            "packed",
            f"{packed.dtype} {tuple(packed.shape)}, expected int32 [..., m, {words(columns)}]: "
            f"{columns} bytes",
        )
    # A contiguous tensor keeps odd strides of extents of 1, with which torch makes no view of another type.
    row_major = packed.clone(memory_format=torch.contiguous_format)
    return row_major.view(torch.uint8)[..., :columns].contiguous().view(torch.float8_e8m0fnu)


def _check(argument: str, tensor: torch.Tensor, columns: str = "columns") -> None:
    """Raises an error unless it is a tensor of two or more dimensions, the last of `columns`."""
    import torch  # noqa: PLC0415

    if not isinstance(tensor, torch.Tensor):
        kind = type(tensor).__name__
        raise ArgumentTypeError(argument, f"expected a tensor [..., m, {columns}], got {kind}")
    if tensor.ndim < 2:
        raise ArgumentError(argument, f"expected [..., m, {columns}], got shape {tuple(tensor.shape)}")


def _strides(batch: Sequence[int], columns: int, ld: int) -> tuple[int, ...]:
    strides, step = [], columns * ld
    for extent in reversed(batch):
        strides.append(step)
        step *= extent
    return (*reversed(strides), 1, ld)
