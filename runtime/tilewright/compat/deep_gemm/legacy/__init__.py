"""Names of DeepGEMM's kernels for older GPUs. They come with the grouped products of this package."""
