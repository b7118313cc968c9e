"""Lines of 100 MB, values of 100 MB, many tiny lines: bounded memory, and an answer.

The bounds are several times the measured values: they separate growth with the input from no growth on any machine.
"""

import json
import os

import pytest

from helpers.matrix import crossed
from hostile import child
from hostile.child import MEGABYTE
from hostile.formats import FORMATS, NO_SESSIONS, recording
from hostile.making import GOOD, assert_refused
from lore.model.limits import RECORD_BYTES

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="peaks of memory are measured on POSIX")

HUGE = 100 * MEGABYTE
BOUND = 110 * MEGABYTE + RECORD_BYTES  # a process, and one line that is pending
COMMANDS = (("check", "--json"), ("fold", "--json"), ("assemble",), ("diff-prefix", "--json", "--no-tokens"))

ENDS = {"more lines": b"\n" + GOOD, "nothing more": b""}


def write(path, *parts: bytes | int) -> None:
    """Write bytes; a number stands for that number of arbitrary bytes."""
    with path.open("wb") as file:
        for part in parts:
            if isinstance(part, bytes):
                file.write(part)
            else:
                file.truncate(file.seek(part, os.SEEK_CUR))  # a hole: NUL bytes that take no room on the disk


def places(format: str) -> tuple[bytes, bytes]:
    """Return the bytes before and after a line in the middle."""
    before, _, after = recording(format, line=b"LINE").partition(b"LINE")
    return before, after


@crossed("format, command", FORMATS, COMMANDS)
def test_line_of_100_mb_is_skipped_and_counted(desk, format, command):
    before, after = places(format)
    write(desk / "log", before, b'{"kind":"', HUGE, b'"}', after)
    ended = child.lore(*command, "log")
    assert ended.peak < BOUND
    if format in NO_SESSIONS and command[0] in ("fold", "assemble"):
        assert_refused(ended)
        return
    assert ended.code == {"check": 1, "assemble": 0}.get(command[0], 3)
    if command[0] != "assemble":
        problems = [one for line in ended.out.splitlines() for one in json.loads(line)["problems"]]
        long = [one for one in problems if "longer than 12 MiB" in one["message"]]
        assert [(one["code"], one["line"], one["byte"]) for one in long] == [("LORE217", 4, len(before))]
    if command[0] == "check":
        assert {one["code"] for one in problems} == {"LORE217"}
        assert ended.json["summary"]["turns"] >= 2


def test_unfinished_line_of_100_mb_is_counted_once(desk):
    write(desk / "log", GOOD, b'{"kind":"', HUGE, b"x")
    ended = child.lore("check", "--json", "log")
    assert ended.peak < BOUND
    assert [(one["code"], one["line"]) for one in ended.json["problems"]] == [("LORE217", 4)]


@crossed("end, command", ENDS, COMMANDS)
def test_first_line_of_100_mb_is_not_recognised(desk, command, end):
    write(desk / "log", b'{"kind":"session_started"', HUGE, ENDS[end])
    ended = child.lore(*command, "log")
    assert ended.peak < BOUND
    assert_refused(ended)


def test_first_100_mb_line_is_skipped_with_format(desk):
    write(desk / "log", b'{"kind":"session_started"', HUGE, b"\n", GOOD)
    ended = child.lore("check", "--json", "--format", "lore", "log")
    assert ended.peak < BOUND
    assert [one["code"] for one in ended.json["problems"]] == ["LORE217"]
    assert ended.json["summary"]["turns"] == 1


def test_one_line_body_of_100_mb_is_counted(desk):
    write(desk / "body", b'{"model":"m","messages":[{"role":"user","content":"', HUGE, b'"}]}')
    ended = child.lore("check", "--json", "body")
    assert ended.peak < BOUND
    assert [(one["code"], one["line"], one["byte"]) for one in ended.json["problems"]] == [("LORE217", 1, 0)]


def test_many_line_body_of_100_mb_is_counted(desk):
    line = b'  "' + b"x" * 100_000 + b'",\n'
    write(desk / "body", b'{"model":"m","messages":[\n', line * 1000, b"]}")
    ended = child.lore("check", "--json", "body")
    assert ended.peak < BOUND + RECORD_BYTES  # pending lines are joined once
    assert ended.code == 2  # nothing could be judged
    assert [one["code"] for one in ended.json["problems"]] == ["LORE217"]


def test_unrecognised_files_of_100_mb_are_compared(desk):
    write(desk / "left", b'{"a":', HUGE)
    write(desk / "right", b'{"a":', HUGE, b"x")
    ended = child.lore("diff-prefix", "left", "right", "--json")
    assert (ended.code, ended.json["file"]["common_prefix_bytes"]) == (0, HUGE + 5)
    assert ended.peak < BOUND


TINY = {"nothing": b"\n", "rubbish": b"x\n"}
MANY = {"spaces": b" \n", "numbers": b"1\n", "NUL": b"\x00\n", "braces": b"{}\n", "unknown": b'{"kind":"x"}\n'}


@pytest.mark.parametrize("tiny", TINY)
def test_empty_and_unreadable_lines_cost_little_memory(desk, tiny):
    (desk / "log").write_bytes(GOOD + TINY[tiny] * 200_000)
    ended = child.lore("check", "--json", "log")
    assert ended.peak < 120 * MEGABYTE
    assert ended.json["summary"]["problems"] == (200_000 if tiny == "rubbish" else 0)
    assert len(ended.json["problems"]) <= 40


@crossed("format, tiny", FORMATS, MANY)
def test_many_tiny_lines_cost_little_memory(desk, format, tiny):
    """Opaque records are kept in the session, as everything is that a log holds: they may grow with it."""
    (desk / "log").write_bytes(recording(format) + MANY[tiny] * 20_000)
    ended = child.lore("check", "--json", "log")
    assert ended.code in (0, 1, 3)
    assert ended.peak < 200 * MEGABYTE
    assert len(ended.json["problems"]) <= 40


def test_million_tiny_unrecognised_lines_are_refused(desk):
    (desk / "log").write_bytes(b"{}\n" * 1_000_000)
    ended = child.lore("check", "log")
    assert_refused(ended)
    assert ended.peak < 120 * MEGABYTE
