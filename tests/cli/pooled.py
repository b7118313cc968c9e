"""Run `lore` in a process of its own that judges in several processes however little there is to judge."""

import subprocess
import sys

from cli.running import Ran

_SCRIPT = """
import sys
import lore.run.checking.check, lore.run.checking.pool
from lore.commands.main import main
lore.run.checking.verdicts.SMALL = 0
{patch}
sys.exit(main(sys.argv[1:]))
"""
# A process other than the first that judges this file dies, as long as `when` holds.
DIES = """
import os
judge, parent = lore.run.checking.check.judge_file, os.getpid()
def dies(file, context, progress=None):
    if file.path.endswith({name!r}) and os.getpid() != parent and {when}:
        os.kill(os.getpid(), 9)
    return judge(file, context, progress)
lore.run.checking.check.judge_file = dies
"""


def script(patch: str = "") -> str:
    """Return the program; `patch` is more of it, run before `main`."""
    return _SCRIPT.format(patch=patch)


def pooled(*args: str, patch: str = "", stdin: bytes = b"") -> Ran:
    """Run it to its end."""
    command = [sys.executable, "-c", script(patch), *args]
    process = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=180)
    return Ran(process.returncode, process.stdout.decode("utf-8"), process.stderr.decode("utf-8"))
