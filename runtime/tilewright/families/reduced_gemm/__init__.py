"""The `reduced_gemm` family at run time: products that are added up over a batch."""

OPS = ("reduced_gemm",)
