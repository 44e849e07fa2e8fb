"""Dense GEMM, through CUTLASS 3.x collective builders, or a lean mainloop of ours."""
