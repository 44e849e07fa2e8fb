"""Block-scaled arithmetic in plain torch. Callers import it as `tilewright.reference`."""
