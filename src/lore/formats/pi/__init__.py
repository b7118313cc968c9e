"""Sessions of pi, and of flue, which is built on its model library."""
