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
    "fp8_1x128": Type(8, "float8_e4m3fn"),
    "fp8_128x128": Type(8, "float8_e4m3fn"),
}


def scale_type(name: str) -> str:
    """torch's name of the scale factors of a block-scaled format."""
    return "float8_e4m3fn" if name == "nvfp4" else "float8_e8m0fnu"


def bits(name: str) -> int:
    """Of one element."""
    return TYPES[name].bits
