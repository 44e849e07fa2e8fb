"""A family's declarations of its kernels: the fields of its configuration, its rules, its memory."""
