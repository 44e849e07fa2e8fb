"""GPUs and their architectures: what runs where, and what a GPU can hold."""
