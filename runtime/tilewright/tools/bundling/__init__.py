"""Makes bundles: which kernels a model's products can choose, their libraries, and the report."""
