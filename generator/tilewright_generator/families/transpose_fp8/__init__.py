"""Matrices of bytes, transposed: kernels of our own."""
