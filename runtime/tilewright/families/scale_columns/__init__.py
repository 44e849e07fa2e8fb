"""The `scale_columns` family at run time: FP32 scales into the layouts that kernels read."""

OPS = ("scale_columns",)
