"""lore in a process of its own, with what it took: how it ended, what it said, its peak memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import IO, Any, NamedTuple

MEGABYTE = 1 << 20
TIMEOUT = 120  # seconds: a generous end for what should take a few
# Between the tests and lore stands a small process: what a process starts with counts as its own peak.
_LAUNCHER = """
import json, os, sys
pid = os.fork()
if not pid:
    os.execv(sys.executable, [sys.executable, "-m", "lore", *sys.argv[2:]])
_, status, usage = os.wait4(pid, 0)
with open(sys.argv[1], "w") as file:
    json.dump([os.waitstatus_to_exitcode(status), usage.ru_maxrss], file)
"""


class Took(NamedTuple):
    """How a process ended, what it said, and its peak of resident memory in bytes."""

    code: int
    out: str
    err: str
    peak: int

    @property
    def json(self) -> Any:
        """The answer."""
        return json.loads(self.out)


def lore(*words: str, stdin: IO[bytes] | int = subprocess.DEVNULL) -> Took:
    """Run lore in this folder; whatever happens it must not look like a crash."""
    said = f"took-{os.getpid()}.json"
    done = subprocess.run(
        [sys.executable, "-c", _LAUNCHER, said, *words], stdin=stdin, capture_output=True, timeout=TIMEOUT, check=False
    )
    with open(said, encoding="ascii") as file:
        code, peak = json.load(file)
    out, err = done.stdout.decode("utf-8"), done.stderr.decode("utf-8")
    assert code != 70, err
    assert "Traceback" not in out + err
    return Took(code, out, err, peak * (1 if sys.platform == "darwin" else 1024))
