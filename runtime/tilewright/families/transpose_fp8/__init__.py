"""The `transpose_fp8` family at run time: FP8 matrices whose columns become rows."""

OPS = ("transpose_fp8",)
