"""The lowest layer, which every package may import: files, schemas, paths, text, locks, plugins."""
