"""Groups of kernels side by side: which kernels, which problems, what each takes, and how that is told.

What needs no GPU needs no torch either: only `comparing` and `measuring` import it.
"""
