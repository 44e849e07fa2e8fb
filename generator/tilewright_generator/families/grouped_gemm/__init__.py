"""Products with scale factors, of rows that may belong to groups, by a lean mainloop of ours."""
