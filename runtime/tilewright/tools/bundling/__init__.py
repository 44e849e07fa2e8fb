"""Makes bundles: finds the kernels that a model's products can choose, builds their libraries, and
reports."""
