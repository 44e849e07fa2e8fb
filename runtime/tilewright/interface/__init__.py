"""What a family declares of its kernels' arguments, and what follows from it: the C struct, its header, and
how a call's tensors become one."""
