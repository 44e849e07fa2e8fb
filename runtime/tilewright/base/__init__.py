"""What every other package may import: files, schemas, paths, text, locks, plugins."""
