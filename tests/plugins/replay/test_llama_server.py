"""`lore replay` into llama.cpp's own server, if it is installed.

`LORE_LLAMA` names a folder with `llama-server` and a `tiny.gguf`; without it they are looked for in `build/oracle`.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.running import lore
from lore.commands.main import main
from plugins.record.standin import StandIn, served

ROOT = Path(__file__).resolve().parents[3]
LLAMA = Path(os.environ.get("LORE_LLAMA", ROOT / "build" / "oracle" / "llama"))

pytest.importorskip("httpx")
pytestmark = pytest.mark.skipif(not (LLAMA / "llama-server").exists(), reason="there is no llama-server")


@contextmanager
def serving(*options, model="tiny"):
    """Start a server with these options; yields its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [LLAMA / "llama-server", "-m", LLAMA / f"{model}.gguf", "--host", "127.0.0.1", "--port", str(port)]
    command += ["-c", "32768", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            for _ in range(600):
                try:
                    urllib.request.urlopen(f"{url}/health", timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield url
        finally:
            process.kill()


@pytest.fixture
def server():
    with serving() as url:
        yield url


def test_llama_server_reads_as_predicted(server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    stable = ROOT / "fixtures" / "recordings" / "stable.jsonl"
    arguments = ["--server", server, "--dialect", "openai-chat", "--pace", "0", "-o", "c.jsonl", "--json"]
    assert main(["replay", str(stable), *arguments]) == 0
    found = json.loads(capsys.readouterr().out)

    turns = found["layouts"][0]["simulated"]["turns"]
    assert found["engine"] == "llama.cpp"
    assert {turn["cache"] for turn in turns} == {"llama.cpp"}
    assert [turn["billed"]["read_tokens"] > 100 for turn in turns] == [False, True, True, True]
    for turn in turns:  # the chat template's end of a prompt is not in the next one
        assert abs(turn["predicted"]["read_tokens"] - turn["billed"]["read_tokens"]) <= 16
    assert main(["check", "c.jsonl"]) == 0


AGENT = """
import anthropic
with anthropic.Anthropic(api_key="sk-ant-SECRET-0123456789", max_retries=0) as client:
    messages, system = [], " ".join(str(number * 7919) for number in range(1000))
    for number in range(4):
        messages.append({"role": "user", "content": f"question {number}: " + system[number * 100 :][:400]})
        answer = client.messages.create(model="claude-opus-5", max_tokens=999, messages=messages, system=system)
        messages.append({"role": "assistant", "content": answer.content[0].text})
"""


def test_llama_server_replays_a_recorded_agent(server, tmp_path, monkeypatch):
    """Three commands, one story: `lore record` with a real SDK, `lore check`, `lore replay` into a real engine."""
    pytest.importorskip("anthropic")
    monkeypatch.chdir(tmp_path)
    Path("agent.py").write_text(AGENT, "utf-8")
    with served(StandIn()) as upstream:
        command = ["--upstream", upstream, "-o", "c.jsonl", "--", sys.executable, "agent.py"]
        subprocess.run([sys.executable, "-m", "lore", "record", *command], check=True, timeout=180)
    ran = lore("check", "c.jsonl", "--json")
    assert json.loads(ran.out)["summary"]["turns"] == 4
    ran = lore("replay", "c.jsonl", "--server", server, "--dialect", "openai-chat", "--pace", "0", "-o", "r.jsonl",
               "--json")  # fmt: skip
    assert ran.code == 0, ran.err
    turns = json.loads(ran.out)["layouts"][0]["simulated"]["turns"]
    assert [turn["billed"]["read_tokens"] > 1_000 for turn in turns] == [False, True, True, True]
    for turn in turns:
        assert abs(turn["predicted"]["read_tokens"] - turn["billed"]["read_tokens"]) <= 16


def _spoken(name, count, size=70):
    """A conversation that grows: its requests, as an OpenAI client sends them."""
    messages = [{"role": "system", "content": f"{name} is an agent. " * 40}]
    for number in range(count):
        messages.append({"role": "user", "content": f"{name}, question {number}: " + name * size})
        yield json.dumps({"model": "tiny", "messages": messages}) + "\n"
        messages.append({"role": "assistant", "content": f"answer {number}"})


def _replayed(capsys, path, url):
    arguments = ["--server", url, "--dialect", "openai-chat", "--pace", "0", "-o", "c.jsonl", "--json"]
    assert main(["replay", path, *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def _measured(capsys, log, *more):
    assert main(["simulate", "c.jsonl", "--measured", log, "--json", *more]) == 0
    return json.loads(capsys.readouterr().out)["measured"]


@pytest.mark.parametrize("verbosity", [(), ("-lv", "5"), ("--log-jsonl",)], ids=["plain", "all", "jsonl"])
def test_llama_server_logs_agree_with_its_answers(verbosity, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("r.jsonl").write_text("".join(_spoken("ann", 4)), "utf-8")
    with serving("-np", "2", "--metrics", "--log-file", "server.log", *verbosity) as url:
        found = _replayed(capsys, "r.jsonl", url)
        with urllib.request.urlopen(f"{url}/metrics", timeout=30) as scraped:
            Path("metrics.txt").write_bytes(scraped.read())
        until = time.monotonic() + 60
        while Path("server.log").read_bytes().count(b"stop processing") < 4 and time.monotonic() < until:
            time.sleep(0.05)  # it is written a little later
    billed = found["layouts"][0]["simulated"]["totals"]["billed"]
    read, prompt = billed["read_tokens"], billed["read_tokens"] + billed["uncached_tokens"]
    assert read > 1_000
    for log, requests in (("server.log", 4), ("metrics.txt", None)):
        measured = _measured(capsys, log)
        found = measured["logs"][0]
        assert (found["engine"], found["requests"]) == ("llama.cpp", requests), measured
        assert (found["cached_tokens"], found["prompt_tokens"]) == (read, prompt)


def test_llama_server_slots_are_predicted_with(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [line for pair in zip(*(_spoken(name, 4) for name in ("ann", "bob", "cid")), strict=True) for line in pair]
    Path("r.jsonl").write_text("".join(lines), "utf-8")
    with serving("-np", "2") as url:
        found = _replayed(capsys, "r.jsonl", url)
    assert any("the server has 2 slots" in note for note in found["notes"])
    turns = found["layouts"][0]["simulated"]["turns"]
    assert len({turn["chain"] for turn in turns}) == 3
    for turn in turns:
        assert abs(turn["predicted"]["read_tokens"] - turn["billed"]["read_tokens"]) <= 16


def test_llama_server_window_is_predicted_if_named(tmp_path, monkeypatch, capsys):
    """The last request edits the first question: the server resumes from a checkpoint before the common prefix ends."""
    monkeypatch.chdir(tmp_path)
    bodies = [json.loads(line) for line in _spoken("ann", 6, 700)]
    question = bodies[5]["messages"][3]
    question["content"] = question["content"].replace("ann" * 600, "ann" * 500 + "bob" * 100)
    Path("r.jsonl").write_text("".join(json.dumps(body) + "\n" for body in bodies), "utf-8")
    with serving("-np", "1", model="window") as url:
        _replayed(capsys, "r.jsonl", url)
    over = {}
    for options in ("", ",window=48"):
        assert main(["simulate", "c.jsonl", "--json", "--cache", f"llama.cpp:slots=1{options}"]) == 0
        turns = json.loads(capsys.readouterr().out)["turns"]
        over[options] = [turn["predicted"]["read_tokens"] - turn["billed"]["read_tokens"] for turn in turns]
    assert over[""][:5] == over[",window=48"][:5] == [0] * 5
    assert over[""][5] > 300
    assert abs(over[",window=48"][5]) < 150  # the begin of a message is estimated
