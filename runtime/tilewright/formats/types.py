"""The types of matrices, by the names that specs, problems and tables have for them. Needs no torch."""

from typing import NamedTuple


class Type(NamedTuple):
    """An element: its bits, and torch's name of the tensors that hold it. Of a block-scaled format also the
    rows and columns that share a scale factor, and the type of those."""

    bits: int
    torch: str
    block: tuple[int, int] = (1, 1)
    scale: str = ""


TYPES = {
    "bf16": Type(16, "bfloat16"),
    "f16": Type(16, "float16"),
    "f32": Type(32, "float32"),
    "tf32": Type(32, "float32"),
    "e4m3": Type(8, "float8_e4m3fn"),
    "e5m2": Type(8, "float8_e5m2"),
    "s8": Type(8, "int8"),
    "u8": Type(8, "uint8"),
    "s32": Type(32, "int32"),
    "ue8m0": Type(8, "float8_e8m0fnu"),
    "nvfp4": Type(4, "float4_e2m1fn_x2", (1, 16), "e4m3"),
    "mxfp4": Type(4, "float4_e2m1fn_x2", (1, 32), "ue8m0"),
    "mxfp8": Type(8, "float8_e4m3fn", (1, 32), "ue8m0"),
    "mxfp8_e5m2": Type(8, "float8_e5m2", (1, 32), "ue8m0"),
    "fp8_1x128": Type(8, "float8_e4m3fn", (1, 128), "f32"),
    "fp8_128x1": Type(8, "float8_e4m3fn", (128, 1), "f32"),
    "fp8_128x128": Type(8, "float8_e4m3fn", (128, 128), "f32"),
}


TMA_BYTES = 16
"""The alignment in bytes that TMA requires of addresses, leading dimensions and batch strides."""


def bits(name: str) -> int:
    """The bits of one element."""
    return TYPES[name].bits


def bytes_of(name: str) -> int:
    """The bytes of one element of a type that has whole bytes."""
    return bits(name) // 8


def per_byte(name: str) -> int:
    """Elements of a type in one of a tensor: two of FP4, one of all else."""
    return 2 if bits(name) == 4 else 1
