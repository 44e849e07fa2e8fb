"""nvcc: its toolchain, its commands, and the checks of the machine code that it makes."""
