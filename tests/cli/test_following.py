"""--follow on the command line: usage, exit codes, and a process that another one writes to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import lore, put, session
from helpers.schemas import valid
from model.making import assistant, body, dumps, record, said, user

LOG = session()
MORE = dumps(record("append", item=user("u3", "third"))) + b"\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("fold", "s.jsonl", "--follow", "--at", "1"), "--follow shows a log as it grows"),
        (("fold", "-", "--follow"), "is a stream"),
        (("fold", "none.jsonl", "--follow"), "cannot read none.jsonl"),
        (("fold", ".", "--follow"), "cannot read ."),
        (("fold", "s.jsonl", "--since", "01234567:1"), "use it with --follow --json"),
        (("fold", "s.jsonl", "--follow", "--since", "01234567:1"), "use it with --follow --json"),
        (("fold", "s.jsonl", "--follow", "--json", "--since", "soon"), "is no cursor"),
        (("check", "--follow"), "one recording"),
        (("check", ".", "--follow"), "one recording"),
        (("check", "s.jsonl", "s.jsonl", "--follow"), "one recording"),
        (("check", "s.jsonl", "--follow", "--jobs", "2"), "leave --jobs out"),
        (("check", "-", "--follow"), "is a stream"),
        (("check", "none.jsonl", "--follow"), "cannot read none.jsonl"),
    ],
)
def test_what_cannot_be_is_a_usage_error(args, said):
    put("s.jsonl", LOG)
    ran = lore(*args)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert said in ran.err
    assert not Path("ck").exists()


class Running:
    """A command that follows; what it wrote is read line by line, so that nothing waits for a clock."""

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
        """Interrupt it; return its exit code, and what it still wrote."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out.decode("utf-8"), err.decode("utf-8")


def add(name, data):
    with open(name, "ab") as file:
        file.write(data)


def test_events_come_from_a_log_that_another_process_writes():
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


def test_the_timeline_of_a_log_that_another_process_writes_is_shown_as_it_grows():
    put("s.jsonl", LOG)
    with Running("fold", "s.jsonl", "--follow", "--no-color") as follower:
        assert [follower.line() for _ in range(5)] == [
            "user       first\n",
            "turn 1     2026-01-01T00:00:00Z, read 0, paid 3 uncached and 50 written, 2 output tokens\n",
            "assistant  answer\n", "user       second\n", "turn 2     2026-01-01T00:00:10Z, not ended\n",
        ]  # fmt: skip
        add("s.jsonl", dumps(record("append", item=said("a2", "third"))) + b"\n")
        assert follower.line() == "assistant  third\n"
        assert follower.interrupted() == (130, "", "")


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_findings_come_before_the_recording_ends_and_sums_when_interrupted(form):
    waste = [body("one", assistant("two"), system=f"Today is 2026-01-0{n}.") for n in (1, 2, 3)]
    put("r.jsonl", *waste[:2])
    with Running("check", "r.jsonl", "--follow", "--no-color", *form) as follower:
        first = follower.line()
        if form:
            valid(json.loads(first), "finding")
            assert json.loads(first)["code"] == "LORE101"
        else:
            assert first.startswith("✗ r.jsonl:2  turn 2  system  LORE101 date-in-prefix")
        add("r.jsonl", dumps(waste[2]) + b"\n")
        while "r.jsonl:3" not in (seen := follower.line()) and '"line":3' not in seen:
            assert seen
        code, out, err = follower.interrupted()
    assert (code, err) == (130, "")
    last = out.splitlines()
    if form:
        summary = json.loads(last[-1])
        valid(summary, "check")
        assert (summary["summary"]["turns"], summary["summary"]["breaks"]) == (3, 2)
    else:
        assert last[-4].startswith("1 file, 1 chain, 3 turns, 2 pairs compared")


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
