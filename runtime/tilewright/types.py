"""The types of matrices, by the names that specs, problems and tables have for them. Needs no torch."""

from __future__ import annotations

from typing import NamedTuple


class Type(NamedTuple):
    """An element: its bits, and torch's name of the tensors that hold it."""

    bits: int
    torch: str


# Of the block-scaled formats the elements; the scale factors have types of their own.
TYPES = {
    "bf16": Type(16, "bfloat16"),
    "f16": Type(16, "float16"),
    "f32": Type(32, "float32"),
    "tf32": Type(32, "float32"),
    "e4m3": Type(8, "float8_e4m3fn"),
    "e5m2": Type(8, "float8_e5m2"),
    "s8": Type(8, "int8"),
    "s32": Type(32, "int32"),
    "nvfp4": Type(4, "float4_e2m1fn_x2"),
    "mxfp4": Type(4, "float4_e2m1fn_x2"),
    "mxfp8": Type(8, "float8_e4m3fn"),
    "mxfp8_e5m2": Type(8, "float8_e5m2"),
    "ue8m0": Type(8, "float8_e8m0fnu"),
    "fp8_1x128": Type(8, "float8_e4m3fn"),
    "fp8_128x128": Type(8, "float8_e4m3fn"),
}


def scale_type(name: str) -> str:
    """The type of the scale factors of NVFP4 or an MX format."""
    return "e4m3" if name == "nvfp4" else "ue8m0"


def bits(name: str) -> int:
    """Of one element."""
    return TYPES[name].bits


def bytes_of(name: str) -> int:
    """Of one element of a type that has whole bytes."""
    return bits(name) // 8


def per_byte(name: str) -> int:
    """Elements of a type in one of a tensor: two of FP4, one of all else."""
    return 2 if bits(name) == 4 else 1
