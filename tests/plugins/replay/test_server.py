"""Addresses of this machine, proxies, waits that servers request, killed runs."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from lore.commands.main import main
from lore.endpoints import Deadline, is_loopback_url
from lore_plugins.replay.server import Probed
from plugins.replay.engines import VLLM, serving, status

pytest.importorskip("httpx")

STABLE = Path(__file__).resolve().parents[3] / "fixtures" / "recordings" / "stable.jsonl"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


def replay(url, *more):
    return ["replay", str(STABLE), "--server", url, "--dialect", "openai-chat", "--pace", "0", "-o", "c.jsonl", *more]


@pytest.mark.parametrize(
    ("host", "near"),
    [
        ("127.0.0.1:1", True), ("127.1", True), ("2130706433", True), ("0x7f.1", True), ("localhost", True),
        ("LOCALHOST:80", True), ("llm.localhost", True), ("[::1]:1", True), ("[::ffff:127.0.0.1]", True),
        ("0.0.0.0:8000", True), ("[::]:8000", True), ("10.0.0.1", False), ("[::ffff:10.0.0.1]", False),
        ("localhost.example.com", False), ("127.0.0.1.example.com", False), ("localhost@example.com", False),
        ("169.254.169.254", False), ("example.com", False), ("localhost.", False),
    ],
)  # fmt: skip
def test_addresses_of_this_machine(host, near):
    assert is_loopback_url(f"http://{host}/v1") == near


@pytest.mark.parametrize(
    ("peer", "taken"), [("127.0.0.1", True), ("::1", True), ("192.0.2.7", False), ("fe80::1", False)]
)
def test_local_name_of_another_machine_is_refused(peer, taken):
    class Stream:
        closed = False

        def get_extra_info(self, _):
            return self

        def getpeername(self):
            return peer, 80

        def close(self):
            self.closed = True

    stream, deadline = Stream(), Deadline(9, loopback_only=True)
    if taken:
        deadline.on_trace_event("connection.connect_tcp.complete", {"return_value": stream})
    else:
        with pytest.raises(OSError, match=f"it leads to {peer}, which is not this machine"):
            deadline.on_trace_event("connection.connect_tcp.complete", {"return_value": stream})
    assert stream.closed != taken


def test_proxy_sees_nothing_for_this_machine(monkeypatch):
    engine, proxy = VLLM(), VLLM()
    with serving(engine) as url, serving(proxy) as trap:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, trap)
        assert main(replay(url)) == 0

    assert len(engine.asked) == 4
    assert proxy.paths == []


def test_proxy_is_named_in_the_question(monkeypatch, capsys):
    proxy = VLLM()
    with serving(proxy) as trap:
        monkeypatch.setenv("http_proxy", trap.replace("http://", "http://user:hunter2@"))
        monkeypatch.setattr("lore.commands.common.can_ask", lambda: True)
        questions = []
        monkeypatch.setattr("lore.commands.common.ask_confirmation", lambda question: questions.append(question))
        assert main(replay("http://gpu.example.com")) == 2
        assert proxy.paths == []
        assert main(replay("http://gpu.example.com", "--yes")) == 0
        error = capsys.readouterr().err

    assert f"through the proxy {trap}, UNENCRYPTED? [y/N]" in questions[0]
    assert f"to http://gpu.example.com, without a key, through the proxy {trap}, UNENCRYPTED" in error
    assert "hunter2" not in questions[0] + error
    assert [path for path in proxy.paths if "chat" in path] == ["http://gpu.example.com/v1/chat/completions"] * 4


NOON, LATER = "Mon, 23 Nov 2026 12:00:00 GMT", "Mon, 23 Nov 2026 12:00:30 GMT"


@pytest.mark.parametrize(
    ("asked", "waited"),
    [
        ("7", 7), ("2.5", 2.5), ("0", 1), (LATER, 30), (NOON, 1), ("-5", 1), ("soon", 1), ("nan", 1), ("1e2", 1),
        ("", 1), ("\u0661", 1), ("99999999999", None), ("9" * 900, None), ("Mon, 23 Nov 2099 12:00:00 GMT", None),
    ],
)  # fmt: skip
def test_retry_after_is_respected(asked, waited, monkeypatch, capsys):
    waits, engine = [], VLLM()
    monkeypatch.setattr("time.sleep", waits.append)
    engine.failing = [status(503, retry_after=asked.encode().decode("latin-1"), date=NOON)]
    with serving(engine) as url:
        code = main(replay(url))

    if waited is None:
        assert (code, waits, engine.asked) == (2, [], [])
        assert "answers 503: no; it asks to wait" in capsys.readouterr().err
    else:
        assert (code, waits[0], len(engine.asked)) == (0, waited, 4)


class Deadly(VLLM):
    """Kills the client at these requests, before it answers (`late`: after), counted over all runs."""

    def __init__(self, *moments, late):
        super().__init__()
        self.moments, self.late, self.process = list(moments), late, None

    def answer(self, path, body):
        if self.moments and len(self.asked) == self.moments[0]:
            self.moments.pop(0)
            self.process.send_signal(signal.SIGKILL)
            if not self.late:
                self.process.wait()
        return super().answer(path, body)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("late", [False, True])
def test_killed_run_resumes_without_loss_or_repeats(late):
    engine, kept = Deadly(2, 4, late=late), []
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    with serving(engine) as url:
        while engine.moments:
            with subprocess.Popen(
                [sys.executable, "-m", "lore", *replay(url, "--resume")], env=environ,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            ) as engine.process:  # fmt: skip
                assert engine.process.wait(120) == -signal.SIGKILL
            lines = Path("c.jsonl").read_bytes().splitlines(keepends=True)
            kept.append(sum(line.endswith(b"\n") for line in lines))
        assert main(replay(url, "--resume")) == 0

    written = [json.loads(json.loads(line)["request"]["body"]) for line in Path("c.jsonl").read_bytes().splitlines()]
    sent = Counter(json.dumps(body) for body in engine.asked)
    assert [len(body["messages"]) for body in written] == sorted({len(body["messages"]) for body in written})
    assert len(written) == 4
    assert {json.dumps(body) for body in written} == set(sent)
    lost = len(engine.asked) - 4  # answers without a record, because of the kills
    assert lost <= 2
    assert lost == 2 or late
    assert kept == sorted(kept)


@pytest.mark.parametrize(("reached", "tries"), [(False, 2), (True, 6)])
def test_unreachable_server_is_given_up_early(reached, tries, monkeypatch, capsys):
    """A server that answered before may be restarting: it gets all tries."""
    waits, engine = [], VLLM()
    monkeypatch.setattr("time.sleep", waits.append)
    with serving(engine) as url:
        pass
    monkeypatch.setattr("lore_plugins.replay.server.Server.probe", lambda server: _probed(server, reached=reached))
    assert main(replay(url)) == 2
    assert len(waits) == tries - 1
    error = capsys.readouterr().err
    assert f"{tries} times" in error
    assert ("cannot be reached" in error) != reached
    assert "is a server running there?" in error


def _probed(server, *, reached):
    server._reached = reached
    return Probed()
