"""The matrix products of a language model's forward pass, read from its `config.json` or from a list."""
