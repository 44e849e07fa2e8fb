"""Makes bundles: finds the kernels that a model's products can choose, builds their libraries, and
reports."""

MOST = (1 << 24) - 1  # the largest extent or count of a product
