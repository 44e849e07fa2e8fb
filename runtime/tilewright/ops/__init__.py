"""One package per op; `tilewright.<op>` is the function of that name in `tilewright.ops.<op>`."""
