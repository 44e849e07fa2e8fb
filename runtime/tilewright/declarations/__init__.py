"""What a family declares of a call: its problems, its arguments, its tactics, the rows of its tables."""
