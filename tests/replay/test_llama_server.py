"""`lore replay` into llama.cpp's own server, where there is one.

`LORE_LLAMA` names a folder with `llama-server` and a `tiny.gguf`; without it they are looked for in `build/oracle`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from cli.running import lore
from lore.cli.main import main
from record.standin import StandIn, served

ROOT = Path(__file__).resolve().parents[2]
LLAMA = Path(os.environ.get("LORE_LLAMA", ROOT / "build" / "oracle" / "llama"))

pytest.importorskip("httpx")
pytest.importorskip("tenacity")
pytestmark = pytest.mark.skipif(not (LLAMA / "llama-server").exists(), reason="there is no llama-server")


@pytest.fixture
def server():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [LLAMA / "llama-server", "-m", LLAMA / "tiny.gguf", "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen([*command, "-c", "32768"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
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
            process.terminate()


def test_what_the_server_read_of_a_session_that_grows_is_what_was_predicted(server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    stable = ROOT / "fixtures" / "recordings" / "stable.jsonl"
    arguments = ["--server", server, "--dialect", "openai-chat", "--pace", "0", "-o", "c.jsonl", "--json"]
    assert main(["replay", str(stable), *arguments]) == 0
    found = json.loads(capsys.readouterr().out)

    turns = found["layouts"][0]["simulated"]["turns"]
    assert found["engine"] == "llama.cpp"
    assert {turn["cache"] for turn in turns} == {"llama.cpp"}
    assert [turn["billed"]["read_tokens"] > 100 for turn in turns] == [False, True, True, True]
    for turn in turns:  # what the chat template puts behind a prompt is not in the next one
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


def test_what_an_agent_was_recorded_to_send_is_judged_and_replayed(server, tmp_path, monkeypatch):
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
