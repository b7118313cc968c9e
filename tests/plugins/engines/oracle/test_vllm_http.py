"""vLLM's OpenAI-compatible server on a CPU: record, replay, and its own log and metrics.

`LORE_VLLM` names the Python of an environment that has vLLM (`build/oracle/vllm/bin/python`, which `make oracle-vllm`
makes); without it these tests are skipped. The server takes a minute to start.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

PYTHON = os.path.abspath(os.environ["LORE_VLLM"]) if os.environ.get("LORE_VLLM") else ""
pytestmark = pytest.mark.skipif(not PYTHON, reason="LORE_VLLM names no Python that has vLLM")

BLOCK = 32
_PATIENCE = 900.0  # seconds until the server answers, at most
_TESTS = Path(__file__).parents[3]
_RULES = f"""[[rules]]
provider = "vllm"
source = "the server's --block-size"
evidence = "M"
valid_from = 2024-01-01
rows = [{{ rule = "block_tokens", value = {BLOCK} }}]
"""
_AGENT = """
import json, os, urllib.request
said = [{"role": "system", "content": "You keep the harbour of a small town. " * 12}]
for number in range(4):
    said.append({"role": "user", "content": f"Question {number}: " + "what does the tide do? " * 6})
    body = {"model": "tiny", "messages": said, "max_tokens": 40, "temperature": 0, "ignore_eos": True}
    headers = {"content-type": "application/json", "authorization": "Bearer a-key-of-nobody"}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    asked = urllib.request.Request(url, json.dumps(body).encode(), headers)
    answer = json.load(urllib.request.urlopen(asked, timeout=600))
    said.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
"""


class Server(NamedTuple):
    """A running server, and the folder with the recording of a conversation of four turns."""

    url: str
    folder: Path

    def lore(self, *args: str) -> str:
        """Run lore; return its answer."""
        command = [sys.executable, "-m", "lore", *args]
        ran = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=_PATIENCE, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def simulated(self, *args: str) -> Any:
        """Simulate the recorded conversation on vLLM with the blocks of this server."""
        return json.loads(self.lore("simulate", *args, "--cache", "vllm", "--rules-file", "rules.toml", "--json"))


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    pytest.importorskip("starlette")
    folder = tmp_path_factory.mktemp("vllm")
    subprocess.run([PYTHON, "-m", "plugins.engines.oracle.vllm_folder", str(folder)], cwd=_TESTS, check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), "--load-format", "dummy",
        "--enforce-eager", "--dtype", "float32", "--block-size", str(BLOCK), "--num-gpu-blocks-override", "300",
        "--max-model-len", "8192", "--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port),
        "--enable-prompt-tokens-details", "--enable-log-requests",
    ]  # fmt: skip
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    with (folder / "vllm.log").open("wb") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **quiet}, stdout=log, stderr=log, cwd=folder, start_new_session=True
        )
    try:
        vllm_server = Server(f"http://127.0.0.1:{port}", folder)
        _wait(vllm_server.url, process)
        (folder / "agent.py").write_text(_AGENT, encoding="utf-8")
        (folder / "rules.toml").write_text(_RULES, encoding="utf-8")
        vllm_server.lore(
            "record", "--upstream", vllm_server.url + "/v1", "--output", "run.jsonl", "--", sys.executable, "agent.py"
        )
        yield vllm_server
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        assert process.poll() is None, "vLLM did not start: see its log"
        try:
            urllib.request.urlopen(url + "/health", timeout=10).close()
        except (urllib.error.URLError, OSError):
            time.sleep(1)
        else:
            return
    raise AssertionError("vLLM did not answer in time")


def test_recorded_vllm_reads_are_predicted_exactly(server: Server):
    result = server.simulated("run.jsonl")
    billed = [turn["billed"]["read_tokens"] for turn in result["turns"]]
    assert len(billed) == 4
    assert billed[0] == 0
    assert all(read > 0 and read % BLOCK == 0 for read in billed[1:])
    assert [turn["predicted"]["read_tokens"] for turn in result["turns"]][1:] == billed[1:]
    assert "a-key-of-nobody" not in (server.folder / "run.jsonl").read_text(encoding="utf-8")


def test_vllm_log_agrees_with_its_responses(server: Server):
    billed = [turn["billed"] for turn in server.simulated("run.jsonl")["turns"]]
    read = sum(bill["read_tokens"] for bill in billed)
    share = read / (read + sum(bill["uncached_tokens"] for bill in billed))
    rate_text = f"Prefix cache hit rate: {share:.1%}".encode()
    log, until = server.folder / "vllm.log", time.monotonic() + 120
    while rate_text not in log.read_bytes():  # it is printed every ten seconds
        assert time.monotonic() < until, f"{rate_text} is not in the log"
        time.sleep(1)
    measured = server.simulated("run.jsonl", "--measured", "vllm.log")["measured"]
    assert "vllm-log" in json.dumps(measured)
    assert f"{share:.1%} of the prompts" in server.lore("simulate", "vllm.log")


def test_vllm_metrics_agree_with_its_responses(server: Server):
    with urllib.request.urlopen(server.url + "/metrics", timeout=60) as answer:
        (server.folder / "metrics.txt").write_bytes(answer.read())
    billed = [turn["billed"] for turn in server.simulated("run.jsonl")["turns"]]
    read = sum(bill["read_tokens"] for bill in billed)
    whole = read + sum(bill["uncached_tokens"] for bill in billed)
    assert f"4 requests, {read:,} of {whole:,} prompt tokens read" in server.lore("simulate", "metrics.txt")


def test_replay_reads_cached_blocks(server: Server):
    """The last test, since it adds to the server's answers. All but the last block of each prompt is cached."""
    recorded = [turn["billed"] for turn in server.simulated("run.jsonl")["turns"]]
    server.lore("replay", "run.jsonl", "--server", server.url, "--output", "again.jsonl")
    replayed = [turn["billed"]["read_tokens"] for turn in server.simulated("again.jsonl")["turns"]]
    totals = [bill["read_tokens"] + bill["uncached_tokens"] for bill in recorded]
    assert replayed == [(total - 1) // BLOCK * BLOCK for total in totals]
