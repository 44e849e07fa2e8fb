"""CuTe-DSL: how its programs are compiled, and where it is installed."""
