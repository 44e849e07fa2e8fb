"""The declarations of a family: its problems, its arguments, its tactics, the rows of its tables."""
