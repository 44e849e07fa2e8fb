"""Quantising to NVFP4, MXFP4, MXFP8 and FP8 in blocks of 128, and back: kernels of our own."""
