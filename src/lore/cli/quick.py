"""`lore diff-prefix A B` of two files that cannot be recordings, without the command framework.

Importing the framework and the rooms costs 300 ms, as long as comparing two files of 1 GB takes. The answer
is the one that the command itself gives; where anything speaks for the command (options, a terminal, a
file that might be a recording, a plug-in that reads other formats), it is left to it.
"""

from __future__ import annotations

import os
import sys


def bytes_only(args: list[str]) -> str | None:
    """Return the answer, or None where the command has to give it."""
    if len(args) != 3 or args[0] != "diff-prefix" or any(arg.startswith("-") for arg in args):
        return None
    if sys.stdout.isatty() or os.environ.get("FORCE_COLOR"):
        return None
    from lore.recording import corpus

    left, right = args[1:]
    if not (_is_no_recording(left) and _is_no_recording(right)) or corpus.is_same(left, right):
        return None
    from importlib.metadata import entry_points

    if entry_points(group="lore.formats"):
        return None
    from lore.report.plain import file_line, no_prompt_line, visible

    names = [corpus.show(left), corpus.show(right)]
    lengths = file_line(*corpus.common_length(left, right))
    lines = [f"{names[0]} → {names[1]}", lengths, no_prompt_line(names, compared=True)]
    return "".join(f"{visible(line)}\n" for line in lines)


def _is_no_recording(path: str) -> bool:
    from lore.formats.lines import may_be_recording

    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb", buffering=0) as file:
            return not may_be_recording(file.read(4096))
    except OSError:
        return False
