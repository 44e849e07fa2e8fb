"""One package per family; `tilewright.<op>` is the function of that name in the package whose `OPS` lists it.

A package imports torch with the op, not before.
"""
