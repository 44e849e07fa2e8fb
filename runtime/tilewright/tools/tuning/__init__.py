"""Tuning: finding the fastest tactic of a problem on this machine's GPU, and keeping what was found.

`header`, `files` and `tuned` are what a selection needs of it, without torch.
"""
