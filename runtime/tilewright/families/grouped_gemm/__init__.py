"""The `grouped_gemm` family at run time: scaled products, and products of rows that belong to groups."""

OPS = ("grouped_gemm_contiguous", "grouped_gemm_k", "grouped_gemm_masked", "scaled_gemm")
