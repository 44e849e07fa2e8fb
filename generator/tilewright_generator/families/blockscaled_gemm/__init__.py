"""Block-scaled GEMM (NVFP4, MXFP4, MXFP8): CUTLASS 3.x on Blackwell, a mainloop of ours on Hopper."""
