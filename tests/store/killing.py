"""Kill `lore store append` at random moments, again and again, and see that nothing acknowledged is lost or doubled.

    tally = kills(url, 25, random.Random(7))                 one store; `server` for one that can be killed too

A writer is a process that is fed the events it has not been told of, each with the number that it expects, and
is ended by SIGKILL (or its server, every fifth time) after a random number of answers or a random time. After
each kill the store is opened here: what was acknowledged is there, once, in order, and at most what was sent;
`verify` finds no damage. The next writer sends from the first event on that was not acknowledged.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from random import Random
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
        """End it by SIGKILL."""

    def start(self) -> None:
        """Start it, and let it recover."""


class Tally(NamedTuple):
    """How often writers and servers were killed; how many events were acknowledged, and of those stored, unanswered."""

    writers: int
    servers: int
    acknowledged: int
    unanswered: int


def event(number: int) -> bytes:
    """Return the line that is sent as event `number` (from 2 on), of a size between 100 bytes and 60 KB."""
    text = f"{number} " + "x" * (60_000 if number % 17 == 0 else number % 300)
    item = {"type": "user_message", "uuid": f"u{number}", "text": text}
    return json.dumps({"kind": "append", "item": item}).encode()


def sent(number: int) -> bytes:
    """Return the line with the number that it expects."""
    line = json.dumps(HEADER).encode() if number == 1 else event(number)
    return line[:-1] + b', "id": %d}\n' % number


class Writer:
    """A process that appends; `acknowledged` is the number of the last event that it has answered for."""

    def __init__(self, url: str, first: int) -> None:
        self.acknowledged = first - 1
        self.last = first + AT_ONCE - 1
        self._rest = b""
        command = [sys.executable, "-m", "lore", "store", "append", SESSION, "--store", url]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self._process.stdin is not None
        self._input = self._process.stdin.fileno()
        os.set_blocking(self._input, False)
        self._waiting = b"".join(map(sent, range(first, self.last + 1)))

    def run(self, until: int, seconds: float) -> None:
        """Feed it and hear its answers until event `until` is acknowledged, it ends, or the time is up."""
        assert self._process.stdout is not None
        output, end = self._process.stdout.fileno(), time.monotonic() + seconds
        while self.acknowledged < until and (left := end - time.monotonic()) > 0:
            writable = [self._input] if self._waiting else []
            readable, ready, _ = select.select([output], writable, [], left)
            if ready and not self._feed():
                return
            if readable and not self._hear(os.read(output, 65_536)):
                return

    def _feed(self) -> bool:
        try:
            self._waiting = self._waiting[os.write(self._input, self._waiting) :]
        except BrokenPipeError:
            return False
        return True

    def _hear(self, data: bytes) -> bool:
        """Take answers; one that is torn by the kill is no answer."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            assert answer == {"session_id": SESSION, "id": self.acknowledged + 1}, answer
            self.acknowledged = answer["id"]
        return bool(data)

    def kill(self) -> None:
        """End it by SIGKILL, and hear what it had answered before."""
        self._process.send_signal(signal.SIGKILL)
        self._ended()

    def _ended(self) -> bytes:
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        while data := os.read(self._process.stdout.fileno(), 65_536):
            self._hear(data)
        self._waiting = b""
        errors = self._process.stderr.read()
        for one in (self._process.stdin, self._process.stdout, self._process.stderr):
            one.close()
        self._process.wait(PATIENCE)
        return errors

    def abandoned(self) -> None:
        """Wait for a writer whose server is gone: it ends by itself, without a traceback."""
        assert self._process.stdin is not None
        self._waiting = b""
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        errors = self._ended()
        assert b"Traceback" not in errors, errors.decode()
        assert b"a bug in lore" not in errors, errors.decode()


def kills(url: str, count: int, chance: Random, server: Killable | None = None) -> Tally:
    """Kill `count` writers or servers; raises AssertionError where anything acknowledged is lost or doubled."""
    acknowledged = writers = servers = unanswered = 0
    for turn in range(count):
        writer = Writer(url, acknowledged + 1)
        if turn % 4 == 3:
            writer.run(writer.last, chance.uniform(0, LONGEST))
        else:
            writer.run(acknowledged + chance.randint(1, AT_ONCE // 2), PATIENCE)
        if server is not None and turn % 5 == 4:
            server.kill()
            servers += 1
            if servers % 5 == 1:  # it does not come back in time: seconds, which the writer waits before it gives up
                writer.abandoned()
                server.start()
            else:  # it does: the writer goes on
                server.start()
                writer.run(writer.last, LONGEST)
                writer.kill()
        else:
            writer.kill()
            writers += 1
        known = acknowledged = max(acknowledged, writer.acknowledged)
        acknowledged = judge(url, acknowledged, writer.last)
        unanswered += acknowledged - known
        acknowledged = known if chance.random() < 0.5 else acknowledged  # half of them send again what is stored
    return Tally(writers, servers, acknowledged, unanswered)


def judge(url: str, acknowledged: int, last: int) -> int:
    """See that all that was acknowledged is stored, once and in order, and no more than was sent; return how much."""
    try:
        store = open_store(url)
        found = store.load(SESSION).events
    except StoreError:  # killed before the session, or even the store, was made
        if acknowledged:
            raise
        return 0
    try:
        assert acknowledged <= len(found) <= last, (acknowledged, len(found), last)
        assert json.loads(found[0]) == HEADER
        for number, line in enumerate(found[1:], 2):
            assert json.loads(line) == json.loads(event(number)), number
        assert all("incomplete save" in one.message for one in store.verify().damage)
        return len(found)
    finally:
        store.close()
