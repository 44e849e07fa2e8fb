"""FP32 scales into the layouts that kernels read: a kernel of our own."""
