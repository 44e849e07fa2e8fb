"""What the ops share: tactics, selection, plans, checks of arguments, measuring. No op of its own."""
