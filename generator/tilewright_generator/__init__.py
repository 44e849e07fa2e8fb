"""Tilewright's generator: YAML specs in; CUDA instantiations and a dispatch table out."""

__version__ = "0.1.0"
