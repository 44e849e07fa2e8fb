"""The `gemm` family at run time: problem, tactics, selection, and the op itself."""

OPS = ("gemm",)
