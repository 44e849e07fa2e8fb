"""The self-test of a GPU's tensor cores: each instruction form that kernels use, by itself, against a product
on the host. `tilewright doctor --device-self-test` runs it."""
