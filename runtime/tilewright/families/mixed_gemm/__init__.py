"""The `mixed_gemm` family at run time: 16-bit activations by packed 4-bit and 8-bit weights."""

OPS = ("packed_gemm",)
