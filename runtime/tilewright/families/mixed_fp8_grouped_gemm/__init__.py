"""The `mixed_fp8_grouped_gemm` family at run time: `mixed_fp8_gemm` with a weight for each group of rows."""

OPS = ("packed_fp8_grouped_gemm",)
