"""Sessions on disk and in databases, saved by delta (`base` has the words, `README` of the package the map)."""
