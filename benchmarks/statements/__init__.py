"""What pull requests of other projects state, and what of it tilewright does: data, and a page of it."""
