"""Tasks of Cline, Roo Code and Kilo Code."""
