"""What a project's records say, as tables, charts and pages. Needs no GPU, and changes nothing."""
