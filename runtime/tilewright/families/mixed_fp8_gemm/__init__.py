"""The `mixed_fp8_gemm` family at run time: FP8 activations by packed 4-bit weights."""

OPS = ("packed_fp8_gemm",)
