"""Calls of ops: checks of arguments, plans, eager, prepared and torch calls."""
