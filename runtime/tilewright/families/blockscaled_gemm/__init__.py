"""The `blockscaled_gemm` family at run time: problem, selection, and the ops on NVFP4, MXFP4 and MXFP8."""

OPS = ("mm_nvfp4", "mm_mxfp4", "mm_mxfp8", "mm_mxfp8_mxfp4")
