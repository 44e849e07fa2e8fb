"""Products of 16-bit matrices that are added up over a batch: kernels of our own for Hopper."""
