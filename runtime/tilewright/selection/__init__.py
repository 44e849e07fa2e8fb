"""Which tactic computes a problem: fitting, cost models, tuned files, and the choice among them."""
