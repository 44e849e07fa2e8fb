"""The TF32 product and the sums of squares before a norm of hyper-connections: kernels of our own."""
