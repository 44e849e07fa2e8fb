"""Wheels of built kernels: `tilewright wheel` writes them."""
