"""The `mixed_grouped_gemm` family at run time: `mixed_gemm` with a weight for each group of rows."""

OPS = ("packed_grouped_gemm",)
