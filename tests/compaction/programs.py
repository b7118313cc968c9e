"""Programs that tests run: small scripts of this Python, made executable."""

import sys


def program(folder, name, code):
    """Write a script and return its path."""
    path = folder / name
    path.write_text(f"#!{sys.executable} -ISs\nimport json, os, sys, time\n{code}\n", "utf-8")
    path.chmod(0o700)
    return str(path)
