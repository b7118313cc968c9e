"""Results in the forms that people and other programs read; their table is `registry.py`."""
