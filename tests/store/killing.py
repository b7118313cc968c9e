"""Kill `lore store append` at random moments, and check that no acknowledged event is lost or doubled.

    tally = kills(url, 25, random.Random(7))                 one store; `server` for one that can be killed too

A writer is a process that is fed the events that were not acknowledged yet, each with the number that it expects. It
is ended by SIGKILL (or its server, every fifth time) after a random number of answers or a random time. After each kill
the store is opened here: every acknowledged event is there, once, in order, and no event that was not sent; `verify`
finds no damage except an incomplete save.
"""

import json
import subprocess
import sys
from contextlib import closing, suppress
from random import Random
from threading import Thread, Timer
from typing import NamedTuple, Protocol

from lore.store.base import StoreError
from lore.store.registry import open_store

SESSION = "killed"
HEADER = {"kind": "session_started", "session_id": SESSION}
AT_ONCE = 60  # events that a writer is given
LONGEST = 0.25  # seconds after which a kill at a random time comes at the latest: it may meet the start, too
PATIENCE = 60.0


class Killable(Protocol):
    """A server that a store needs."""

    def kill(self) -> None:
        """End it as a crash would."""

    def start(self) -> None:
        """Start it, and let it recover."""


class Tally(NamedTuple):
    """How often writers and servers were killed, and how many events were acknowledged."""

    writers: int
    servers: int
    acknowledged: int


def event(number: int) -> bytes:
    """Return the line that is sent as event `number` (from 2 on), of a size between 100 bytes and 60 KB."""
    text = f"{number} " + "x" * (60_000 if number % 17 == 0 else number % 300)
    item = {"type": "user_message", "uuid": f"u{number}", "text": text}
    return json.dumps({"kind": "append", "item": item}).encode()


def numbered_line(number: int) -> bytes:
    """Return the line with the number that it expects."""
    line = json.dumps(HEADER).encode() if number == 1 else event(number)
    return line[:-1] + b', "id": %d}\n' % number


class Writer:
    """A process that appends; `acknowledged` is the number of the last event that it has answered for."""

    def __init__(self, url: str, first: int) -> None:
        self.acknowledged, self.last = first - 1, first + AT_ONCE - 1
        command = [sys.executable, "-m", "lore", "store", "append", SESSION, "--store", url]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._feeder = Thread(target=self._feed, args=(b"".join(map(numbered_line, range(first, self.last + 1))),))
        self._feeder.start()

    def _feed(self, data: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def hear(self, until: int) -> None:
        """Wait for the answer to event `until`, or until the process ends; a torn answer does not count."""
        assert self._process.stdout is not None
        while self.acknowledged < until and (line := self._process.stdout.readline()).endswith(b"\n"):
            answer = json.loads(line)
            assert answer == {"session_id": SESSION, "id": self.acknowledged + 1}, answer
            self.acknowledged = answer["id"]

    def kill(self, seconds: float = 0.0) -> None:
        """Kill the process after some seconds, and read its earlier answers."""
        timer = Timer(seconds, self._process.kill)
        timer.start()
        self.hear(self.last)
        timer.join()
        self._end()

    def abandon(self) -> None:
        """Wait for a writer whose server is gone: it ends by itself, without a traceback."""
        self.hear(self.last)
        errors = self._end()
        assert b"Traceback" not in errors, errors.decode()
        assert b"a bug in lore" not in errors, errors.decode()

    def _end(self) -> bytes:
        with self._process as process:
            assert process.stdin is not None
            assert process.stderr is not None
            self._feeder.join(PATIENCE)
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait(PATIENCE)
            return process.stderr.read()


def kills(url: str, count: int, chance: Random, server: Killable | None = None) -> Tally:
    """Kill `count` writers or servers; raises AssertionError where anything acknowledged is lost or doubled."""
    acknowledged = writers = servers = 0
    for turn in range(count):
        writer = Writer(url, acknowledged + 1)
        if server is not None and turn % 5 == 4:
            writer.hear(acknowledged + chance.randint(1, AT_ONCE // 2))
            server.kill()
            servers += 1
            if servers % 5 == 1:  # it does not come back in time: seconds, which the writer waits before it gives up
                writer.abandon()
                server.start()
            else:
                server.start()
                writer.kill(LONGEST)
        else:
            is_timed = turn % 4 == 3
            writer.hear(acknowledged if is_timed else acknowledged + chance.randint(1, AT_ONCE // 2))
            writer.kill(chance.uniform(0, LONGEST) if is_timed else 0.0)
            writers += 1
        confirmed = acknowledged = max(acknowledged, writer.acknowledged)
        stored = judge(url, acknowledged, writer.last)
        acknowledged = confirmed if chance.random() < 0.5 else stored  # half of them send stored events again
    return Tally(writers, servers, acknowledged)


def judge(url: str, acknowledged: int, last: int) -> int:
    """Assert that every acknowledged event is stored once and in order, and no unsent one; return their number."""
    try:
        store = open_store(url)
        events = store.load(SESSION).events
    except StoreError:  # killed before the session, or even the store, was made
        if acknowledged:
            raise
        return 0
    with closing(store):
        assert acknowledged <= len(events) <= last, (acknowledged, len(events), last)
        assert json.loads(events[0]) == HEADER
        for number, line in enumerate(events[1:], 2):
            assert json.loads(line) == json.loads(event(number)), number
        assert all("incomplete save" in damage.message for damage in store.verify().damage)
        return len(events)
