"""`einsum` of two tensors, as one product of views by the ops of several families."""
