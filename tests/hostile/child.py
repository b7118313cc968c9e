"""Run lore in a separate process and measure its peak memory."""

import atexit
import functools
import json
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from conftest import ROOT

MEGABYTE = 1 << 20
TIMEOUT = 120  # seconds: a generous end for what should take a few
# A small process starts lore, because a process inherits the peak of the one that forks it. It has
# imported what the commands need (it ran them once) and forks for each run: no start of Python, no imports.
_FORKS = """
import json, os, sys, traceback
from lore.commands.main import main
answers, sys.stdout = sys.stdout, open(os.devnull, "w")
for words in (["check", "--json"], ["fold", "--json"], ["assemble"], ["diff-prefix", "--json", "--no-tokens"]):
    assert main([*words, sys.argv[1]]) == 0
def run(job):
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["env"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), descriptor)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")
    code = main(job["words"])
    sys.stdout.flush()
    sys.stderr.flush()
    return code
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        code = 99
        try:
            code = run(json.loads(line))
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(code)
    _, status, usage = os.wait4(pid, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_maxrss]), file=answers, flush=True)
"""


class Took(NamedTuple):
    """The exit code and output of a process, and its peak resident memory in bytes."""

    code: int
    out: str
    err: str
    peak: int

    @property
    def json(self) -> Any:
        """The answer."""
        return json.loads(self.out)


@functools.cache
def _server(_pid: int) -> subprocess.Popen[str]:
    """Start the process that forks, one for each process of tests."""
    command = [sys.executable, "-c", _FORKS, str(ROOT / "fixtures" / "sessions" / "plain.jsonl")]
    made = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(made.communicate)
    return made


def lore(*words: str) -> Took:
    """Run lore in this folder; whatever happens it must not look like a crash."""
    server = _server(os.getpid())
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory(prefix="lore-took-") as folder:
        said = {name: os.path.join(folder, name) for name in ("out", "err")}
        job = {"words": words, "folder": os.getcwd(), "env": dict(os.environ), **said}
        server.stdin.write(json.dumps(job) + "\n")
        server.stdin.flush()
        answered, _, _ = select.select([server.stdout], [], [], TIMEOUT)
        if not answered:  # the next job gets a new server: this one still writes the answer to this job
            _server.cache_clear()
        assert answered, f"lore {' '.join(words)} did not end in {TIMEOUT} s"
        code, peak = json.loads(server.stdout.readline())
        out, err = (Path(name).read_bytes().decode("utf-8") for name in said.values())
    assert code in {*range(99)} - {70}, err
    assert "Traceback" not in out + err
    return Took(code, out, err, peak * (1 if sys.platform == "darwin" else 1024))
