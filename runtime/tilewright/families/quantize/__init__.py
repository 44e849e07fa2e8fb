"""The `quantize` family at run time: problem, selection, and the ops that quantise and read back."""

OPS = (
    "quantize_nvfp4", "quantize_mxfp4", "quantize_mxfp8", "quantize_fp8_blockwise",
    "dequantize_nvfp4", "dequantize_mxfp4", "dequantize_mxfp8", "dequantize_fp8_blockwise",
)  # fmt: skip
