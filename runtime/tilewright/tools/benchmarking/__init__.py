"""Compares groups of kernels: selects kernels and problems, measures them, and reports the times.

Only `comparing` and `measuring` need a GPU and import torch.
"""
