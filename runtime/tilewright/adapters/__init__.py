"""Tilewright within other frameworks: a module for each. Nothing else imports them."""
