"""The `blockscaled_grouped_gemm` family at run time: `blockscaled_gemm` with a B for each group of rows."""

OPS = ("grouped_mm_nvfp4", "grouped_mm_mxfp4", "grouped_mm_mxfp8", "grouped_mm_mxfp8_mxfp4")
