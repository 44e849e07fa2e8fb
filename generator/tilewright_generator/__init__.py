"""Tilewright's generator: YAML specs in; CUDA instantiations and a dispatch table out."""

from tilewright import __version__ as __version__
