"""Builds generated kernels: toolchain, content-keyed cache, ninja, checks of the machine code, libraries.

Needs neither click nor torch. `building.build` compiles and links; `library.libraries` lists what can be
loaded.
"""
