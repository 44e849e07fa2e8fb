"""Other libraries' functions, computed by tilewright's kernels: a package for each library."""
