"""--follow on the command line: usage, exit codes, and a process that another one writes to."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import lore, put, session
from helpers.schemas import valid
from model.making import dumps, record, said, user

LOG = session()
MORE = dumps(record("append", item=user("u3", "third"))) + b"\n"


@pytest.mark.parametrize(("args", "said"), [
    (("fold", "s.jsonl", "--follow", "--at", "1"), "--follow shows a log as it grows"),
    (("fold", "-", "--follow"), "is a stream"),
    (("fold", "none.jsonl", "--follow"), "cannot read none.jsonl"),
    (("fold", ".", "--follow"), "cannot read ."),
    (("fold", "s.jsonl", "--since", "01234567:1"), "use it with --follow --json"),
    (("fold", "s.jsonl", "--follow", "--since", "01234567:1"), "use it with --follow --json"),
    (("fold", "s.jsonl", "--follow", "--json", "--since", "soon"), "is not a cursor"),
])  # fmt: skip
def test_what_cannot_be_is_a_usage_error(args, said):
    put("s.jsonl", LOG)
    ran = lore(*args)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert said in ran.err
    assert not Path("ck").exists()


class Running:
    """A command that follows; its output is read line by line, so that nothing waits for a clock."""

    def __init__(self, *args):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lore", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def line(self):
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode("utf-8")

    def interrupted(self):
        """Interrupt it; return its exit code and the rest of its output."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out.decode("utf-8"), err.decode("utf-8")


def add(name, data):
    with open(name, "ab") as file:
        file.write(data)


def test_fold_follows_a_log_another_process_writes():
    put("s.jsonl", LOG)
    with Running("fold", "s.jsonl", "--follow", "--json") as follower:
        first = json.loads(follower.line())
        assert first["snapshot"] == lore("fold", "s.jsonl", "--json").json
        add("s.jsonl", MORE[:20])
        add("s.jsonl", MORE[20:])
        second = json.loads(follower.line())
        assert second["event"]["item"]["uuid"] == "u3"
        Path("s.jsonl").rename("s.jsonl.1")
        put("s.jsonl", LOG.replace(b"s-1", b"s-2"))
        third = json.loads(follower.line())
        assert third["cursor"].partition(":")[0] != first["cursor"].partition(":")[0]
        for one in (first, second, third):
            valid(one, "follow")
        code, out, err = follower.interrupted()
    assert (code, out) == (130, "")
    assert "s.jsonl was replaced by another file; it is read from its beginning" in err
    assert "Traceback" not in err


def test_growing_timeline_of_another_process_is_shown():
    put("s.jsonl", LOG)
    with Running("fold", "s.jsonl", "--follow", "--no-color") as follower:
        assert [follower.line() for _ in range(5)] == [
            "user       first\n",
            "turn 1     2026-01-01T00:00:00Z, 0 read, 50 written, 3 uncached, 2 output tokens\n",
            "assistant  answer\n", "user       second\n", "turn 2     2026-01-01T00:00:10Z, not ended\n",
        ]  # fmt: skip
        add("s.jsonl", dumps(record("append", item=said("a2", "third"))) + b"\n")
        assert follower.line() == "assistant  third\n"
        assert follower.interrupted() == (130, "", "")


def test_a_closed_pipe_ends_a_follower_quietly():
    put("s.jsonl", LOG)
    with Running("fold", "s.jsonl", "--follow", "--json") as follower:
        follower.line()
        out, err = follower.process.stdout, follower.process.stderr
        assert out is not None
        assert err is not None
        out.close()
        add("s.jsonl", MORE)
        assert follower.process.wait(timeout=60) == 0
        assert err.read() == b""
