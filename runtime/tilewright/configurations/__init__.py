"""What a family declares of a kernel: the fields of its configuration, its rules, its memory."""
