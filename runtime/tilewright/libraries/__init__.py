"""Kernels in this process: the registry of all, builds on demand, loaded libraries."""
